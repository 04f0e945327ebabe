// What newlib needs below a test program that has a heap, output and exceptions (hosted.ld): its
// files are semihosting's, its memory is what lies between the program and the stack. startup.c,
// compiled to call hosted_main, comes here first.
#define _POSIX_C_SOURCE 200112L
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include "board.h"

extern char end[], _estack[];
int main(int argc, const char** argv);
int hosted_main(void);
int getentropy(void* to, size_t n);
void* __dso_handle;
void initialise_monitor_handles(void);
void* _sbrk(ptrdiff_t more);

void* _sbrk(ptrdiff_t more) {
  static char* top = end;
  char* const before = top;
  if ((ptrdiff_t)((uintptr_t)_estack - (uintptr_t)top) - (1 << 20) < more) {
    errno = ENOMEM;
    return (void*)-1;
  }
  top += more;
  return before;
}

int getentropy(void* to, size_t n) {
  (void)to, (void)n;
  return -1;
}

int hosted_main(void) {
  static const char* arguments[] = {"board", HOSTED_ARGUMENTS NULL};
  initialise_monitor_handles();
  if (setenv("TEST_SHARE", HOSTED_SHARE, 1) != 0 || setenv("TEST_SEED", HOSTED_SEED, 1) != 0)
    return 1;
  const int code = main(sizeof arguments / sizeof arguments[0] - 1, arguments);
  fflush(NULL);
  return code;
}
