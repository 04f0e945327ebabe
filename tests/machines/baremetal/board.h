// What a test image has in place of an operating system: text out and an exit code, by semihosting
// (a breakpoint that the emulator or the debug probe answers).
#ifndef PHASOR_TESTS_BOARD_H
#define PHASOR_TESTS_BOARD_H
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

void board_puts(const char* text);  // SYS_WRITE0
void board_exit(int code);          // SYS_EXIT_EXTENDED
size_t board_stack_used(void);      // the deepest so far, in bytes
size_t board_stack_size(void);

// The weight files in the image (tools/make/baremetal.mk makes the table); the last entry has
// no name.
struct board_file {
  const char* name;
  const unsigned char* bytes;  // aligned to 64
  size_t size;
};
extern const struct board_file board_weights[];

#ifdef __cplusplus
}
#endif
#endif
