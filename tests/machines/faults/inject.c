// Runs a program and lets its system calls fail: the N-th of a class, or all from the N-th on.
//
//   inject -d FOLDER -o LOG [-a] [-s] [-t SECONDS] [-f CLASS:N:FAULT[+]] [-r BYTES] PROGRAM
//   ARGUMENTS…
//
// A filter (seccomp) stops the program and its children at each call of the table below, and at no
// other; the tracer (ptrace) then counts it, and lets it go on, with other arguments, or not at
// all. So nothing is hidden: not what the C library does for itself, not what Python does.
//
// Counted are the calls on names and descriptors in FOLDER and on the three standard streams, and
// those on memory and processes, all from the first name in FOLDER on: the loader and what an
// interpreter imports come before. -a counts calls on other files too, -s those on the standard
// streams from the start. LOG has a line for each, "CLASS N CALL SUBJECT", and one that begins with
// "!" for each fault.
//
// FAULT: error=NUMBER   the call is not made; errno is NUMBER
//        late=NUMBER    the call is made, and then says so
//        short=1, half  a read or write of one byte, or of half of the bytes
//        end            a read of nothing
//        signal=NUMBER  the program gets the signal, and makes the call (not with SIGKILL)
// -r: of what is written to files in FOLDER and to standard output so many bytes have room; what
// is beyond is a short write, and then ENOSPC.
//
// The exit status, or the signal, is the program's. 125: the tracer itself failed; SIGALRM: it has
// waited for SECONDS (-t).
//
// As a library: `inject` without a program forks, and returns in the child, which is traced from
// there on; the caller's process becomes the tracer and never comes back (warm.py).
#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#if !defined(__x86_64__)
#error "the registers of other processors are not known here"
#endif

// What a call is about: the descriptor or the name in its first argument, a name in its second
// beside the descriptor of a folder in its first, memory, processes; mmap is of memory or a file.
enum about { FD, NAME, NAME_AT, MEMORY, PROCESS, MAPPING };

static const struct call {
  const char *kind, *name;
  int number;
  enum about about;
} kCalls[] = {
    {"open", "open", SYS_open, NAME},
    {"open", "openat", SYS_openat, NAME_AT},
    {"open", "creat", SYS_creat, NAME},
    {"read", "read", SYS_read, FD},
    {"read", "pread", SYS_pread64, FD},
    {"read", "readv", SYS_readv, FD},
    {"read", "preadv", SYS_preadv, FD},
    {"write", "write", SYS_write, FD},
    {"write", "pwrite", SYS_pwrite64, FD},
    {"write", "writev", SYS_writev, FD},
    {"write", "pwritev", SYS_pwritev, FD},
    {"mmap", "mmap", SYS_mmap, MAPPING},
    {"memory", "brk", SYS_brk, MEMORY},
    {"memory", "mremap", SYS_mremap, MEMORY},
    {"memory", "mprotect", SYS_mprotect, MEMORY},
    {"unmap", "munmap", SYS_munmap, MEMORY},
    {"unmap", "madvise", SYS_madvise, MEMORY},
    {"unmap", "msync", SYS_msync, MEMORY},
    {"unmap", "mincore", SYS_mincore, MEMORY},
    {"fsync", "fsync", SYS_fsync, FD},
    {"fsync", "fdatasync", SYS_fdatasync, FD},
    {"close", "close", SYS_close, FD},
    {"rename", "rename", SYS_rename, NAME},
    {"rename", "renameat", SYS_renameat, NAME_AT},
    {"rename", "renameat2", SYS_renameat2, NAME_AT},
    {"rename", "link", SYS_link, NAME},
    {"rename", "linkat", SYS_linkat, NAME_AT},
    {"truncate", "ftruncate", SYS_ftruncate, FD},
    {"truncate", "truncate", SYS_truncate, NAME},
    {"truncate", "fallocate", SYS_fallocate, FD},
    {"unlink", "unlink", SYS_unlink, NAME},
    {"unlink", "unlinkat", SYS_unlinkat, NAME_AT},
    {"unlink", "rmdir", SYS_rmdir, NAME},
    {"stat", "fstat", SYS_fstat, FD},
    {"stat", "stat", SYS_stat, NAME},
    {"stat", "lstat", SYS_lstat, NAME},
    {"stat", "newfstatat", SYS_newfstatat, NAME_AT},
    {"stat", "statx", SYS_statx, NAME_AT},
    {"stat", "access", SYS_access, NAME},
    {"stat", "faccessat", SYS_faccessat, NAME_AT},
    {"stat", "faccessat2", SYS_faccessat2, NAME_AT},
    {"stat", "readlink", SYS_readlink, NAME},
    {"stat", "readlinkat", SYS_readlinkat, NAME_AT},
    {"stat", "getdents", SYS_getdents64, FD},
    {"seek", "lseek", SYS_lseek, FD},
    {"mode", "fchmod", SYS_fchmod, FD},
    {"mode", "chmod", SYS_chmod, NAME},
    {"mode", "fchmodat", SYS_fchmodat, NAME_AT},
    {"mode", "mkdir", SYS_mkdir, NAME},
    {"mode", "mkdirat", SYS_mkdirat, NAME_AT},
    {"mode", "flock", SYS_flock, FD},
    {"process", "clone", SYS_clone, PROCESS},
    {"process", "clone3", SYS_clone3, PROCESS},
    {"process", "fork", SYS_fork, PROCESS},
    {"process", "vfork", SYS_vfork, PROCESS},
    {"process", "execve", SYS_execve, PROCESS},
    {"process", "pipe2", SYS_pipe2, PROCESS},
};
enum { kCount = sizeof kCalls / sizeof kCalls[0], kPath = 4096, kPending = 16 };

static const char* folder;
static FILE* log_file;
static int count_all, streams_first, begun;
static long long room = -1;
static struct {
  char kind[16], what[16];
  unsigned long at;
  long value;
  int from, on;  // from: all from the N-th on
} fault;
static unsigned long counts[kCount];  // of a class, where the class has its first row
// What is put back when a call returns: the program takes these registers for its own; and what the
// call then says, where that is not 0.
static struct {
  pid_t pid;
  unsigned long long rdi, rdx;
  long error;
} pending[kPending];
static pid_t children[64];  // processes that the program started
static int child_count;

static void fail(const char* what) {
  fprintf(stderr, "inject: %s: %s\n", what, strerror(errno));
  _exit(125);
}

// ---- the program

static void install_filter(void) {
  struct sock_filter filter[kCount + 6];
  unsigned short n = 0;
  const unsigned arch = offsetof(struct seccomp_data, arch), nr = offsetof(struct seccomp_data, nr);
  filter[n++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, arch);
  filter[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, AUDIT_ARCH_X86_64, 1, 0);
  filter[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
  filter[n++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, nr);
  for (int i = 0; i < kCount; ++i)
    filter[n++] = (struct sock_filter)BPF_JUMP(
        BPF_JMP | BPF_JEQ | BPF_K, (unsigned)kCalls[i].number, (unsigned char)(kCount - i), 0);
  filter[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
  filter[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRACE);
  const struct sock_fprog program = {n, filter};
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) fail("no new privileges");
  if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0) fail("seccomp");
}

static void begin_program(char** words) {
  static const int kUsual[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};  // a caller may ignore them
  for (size_t i = 0; i < sizeof kUsual / sizeof kUsual[0]; ++i) signal(kUsual[i], SIG_DFL);
  personality(ADDR_NO_RANDOMIZE);  // the same calls each time
  if (ptrace(PTRACE_TRACEME, 0, 0, 0) != 0) fail("ptrace");
  raise(SIGSTOP);
  install_filter();
  if (words[0] == NULL) return;
  execvp(words[0], words);
  fail(words[0]);
}

// ---- what a call is about

static int in_folder(const char* path) {
  const size_t length = strlen(folder);
  return strncmp(path, folder, length) == 0 && (path[length] == 0 || path[length] == '/');
}

static void link_of(pid_t pid, const char* what, char* out) {
  char name[64];
  snprintf(name, sizeof name, "/proc/%d/%s", (int)pid, what);
  const ssize_t n = readlink(name, out, kPath - 1);
  out[n > 0 ? n : 0] = 0;
}

static void descriptor_of(pid_t pid, long fd, char* out) {
  static const char* const kStreams[] = {"stdin", "stdout", "stderr"};
  char what[32];
  snprintf(what, sizeof what, "fd/%ld", fd);
  link_of(pid, what, out);
  if (fd >= 0 && fd <= 2 && strcmp(out, "/dev/null") != 0)
    snprintf(out, kPath, "<%s>", kStreams[fd]);
}

// A name in the program's memory, page by page; relative ones get their folder in front.
static void name_of(pid_t pid, long at, unsigned long address, char* out) {
  char text[kPath];
  size_t have = 0;
  while (have + 1 < kPath && memchr(text, 0, have) == NULL) {
    size_t part = 4096 - (address + have) % 4096;
    if (part > kPath - 1 - have) part = kPath - 1 - have;
    const struct iovec to = {text + have, part}, from = {(void*)(address + have), part};
    if (process_vm_readv(pid, &to, 1, &from, 1, 0) != (ssize_t)part) break;
    have += part;
  }
  text[have] = 0;
  if (text[0] == '/') {
    snprintf(out, kPath, "%s", text);
    return;
  }
  char base[kPath];
  if ((int)at == AT_FDCWD)
    link_of(pid, "cwd", base);
  else
    descriptor_of(pid, (int)at, base);
  if (text[0] == 0)
    snprintf(out, kPath, "%s", base);
  else if (snprintf(out, kPath, "%s/%s", base, text) < 0)
    out[0] = 0;
}

// Whether a call counts, and what it is about.
static int counts_for(pid_t pid, const struct call* call, const struct user_regs_struct* r,
                      char* subject) {
  snprintf(subject, kPath, "-");
  switch (call->about) {
    case FD:
      descriptor_of(pid, (int)r->rdi, subject);
      break;
    case NAME:
      name_of(pid, AT_FDCWD, r->rdi, subject);
      break;
    case NAME_AT:
      name_of(pid, (long)r->rdi, r->rsi, subject);
      break;
    case MAPPING:
      if ((r->r10 & MAP_ANONYMOUS) == 0) descriptor_of(pid, (int)r->r8, subject);
      break;
    default:
      break;
  }
  if (in_folder(subject)) return begun = 1;
  // of another process, at the same time: in another order each time
  for (int i = 0; i < child_count && call->about != PROCESS && subject[0] == '-'; ++i)
    if (children[i] == pid) return 0;
  if (subject[0] == '<') return begun || streams_first;
  return begun && (count_all || subject[0] == '-');
}

// ---- the tracer

static unsigned long* counter_of(const char* kind) {
  int i = 0;
  while (i < kCount && strcmp(kCalls[i].kind, kind) != 0) ++i;
  return &counts[i];
}

static void skip(struct user_regs_struct* r, long error) {
  r->orig_rax = (unsigned long long)-1;
  r->rax = (unsigned long long)-error;
}

// What is beyond the room is cut off; false: nothing is to be changed.
static int cut_to_room(const char* subject, struct user_regs_struct* r) {
  if (room < 0 || (subject[0] == '<' && strcmp(subject, "<stdout>") != 0)) return 0;
  const long long wanted = (long long)r->rdx;
  if (wanted <= room) return room -= wanted, 0;
  if (room == 0)
    skip(r, ENOSPC);
  else
    r->rdx = (unsigned long long)room;
  room = 0;
  return 1;
}

// True: the call is made, and its result changed when it returns.
static int apply(pid_t pid, struct user_regs_struct* r) {
  const int vector = r->orig_rax == SYS_writev || r->orig_rax == SYS_pwritev ||
                     r->orig_rax == SYS_readv || r->orig_rax == SYS_preadv;
  if (strcmp(fault.what, "error") == 0 && r->orig_rax == SYS_brk) {
    r->rdi = 0;  // where it cannot do what is asked it says where the end is, as it does of 0
  } else if (strcmp(fault.what, "error") == 0) {
    skip(r, fault.value);
  } else if (strcmp(fault.what, "end") == 0) {
    skip(r, 0);
  } else if (strcmp(fault.what, "short") == 0 || strcmp(fault.what, "half") == 0) {
    const unsigned long long less = fault.what[0] == 's' ? 1 : r->rdx / 2;
    if (r->rdx > 1) r->rdx = vector ? 1 : less;
  } else if (strcmp(fault.what, "signal") == 0) {
    if (kill(pid, (int)fault.value) != 0) fail("kill");
  } else {
    return 1;
  }
  return 0;
}

static int is_hit(const char* kind, unsigned long number) {
  return fault.on && strcmp(kind, fault.kind) == 0 &&
         (number == fault.at || (fault.from && number > fault.at));
}

static void wait_for_return(pid_t pid, const struct user_regs_struct* before, long error) {
  int i = 0;
  while (i < kPending && pending[i].pid != 0) ++i;
  if (i == kPending) fail("too many threads");
  pending[i].pid = pid;
  pending[i].rdi = before->rdi;
  pending[i].rdx = before->rdx;
  pending[i].error = error;
}

// Returns how the program goes on.
static int at_call(pid_t pid) {
  struct user_regs_struct r;
  if (ptrace(PTRACE_GETREGS, pid, 0, &r) != 0) return PTRACE_CONT;  // it has been killed
  int i = 0;
  while (i < kCount && kCalls[i].number != (int)r.orig_rax) ++i;
  char subject[kPath];
  if (i == kCount || !counts_for(pid, &kCalls[i], &r, subject)) return PTRACE_CONT;
  const char* kind = kCalls[i].kind;
  if (kCalls[i].about == MAPPING && subject[0] == '-') kind = "memory";
  const unsigned long number = ++*counter_of(kind);
  const struct user_regs_struct before = r;
  const int hit = is_hit(kind, number);
  const int late = hit && apply(pid, &r);
  const int cut = strcmp(kind, "write") == 0 && cut_to_room(subject, &r);
  fprintf(log_file, "%s%s %lu %s %s\n", hit || cut ? "!" : "", kind, number, kCalls[i].name,
          in_folder(subject) ? subject + strlen(folder) : subject);
  if (!hit && !cut) return PTRACE_CONT;
  ptrace(PTRACE_SETREGS, pid, 0, &r);
  wait_for_return(pid, &before, late ? fault.value : 0);
  return PTRACE_SYSCALL;
}

static void at_return(pid_t pid) {
  struct user_regs_struct r;
  int i = 0;
  while (i < kPending && pending[i].pid != pid) ++i;
  if (i == kPending || ptrace(PTRACE_GETREGS, pid, 0, &r) != 0) return;
  r.rdi = pending[i].rdi;
  r.rdx = pending[i].rdx;
  if (pending[i].error != 0) r.rax = (unsigned long long)-pending[i].error;
  pending[i].pid = 0;
  ptrace(PTRACE_SETREGS, pid, 0, &r);
}

static void add_child(pid_t parent) {
  unsigned long pid = 0;
  if (child_count == sizeof children / sizeof children[0]) fail("too many processes");
  if (ptrace(PTRACE_GETEVENTMSG, parent, 0, &pid) == 0) children[child_count++] = (pid_t)pid;
}

// Runs until the program has ended; its wait status.
static int trace(pid_t program) {
  int status = 0;
  if (waitpid(program, &status, 0) != program || !WIFSTOPPED(status)) fail("start");
  const long options = PTRACE_O_TRACESECCOMP | PTRACE_O_EXITKILL | PTRACE_O_TRACECLONE |
                       PTRACE_O_TRACEFORK | PTRACE_O_TRACEVFORK | PTRACE_O_TRACESYSGOOD |
                       PTRACE_O_TRACEEXEC;
  if (ptrace(PTRACE_SETOPTIONS, program, 0, options) != 0) fail("options");
  ptrace(PTRACE_CONT, program, 0, 0);
  for (;;) {
    const pid_t pid = waitpid(-1, &status, __WALL);
    if (pid < 0) fail("wait");
    if (!WIFSTOPPED(status)) {
      if (pid == program) return status;
      continue;
    }
    const int number = WSTOPSIG(status), event = status >> 16;
    int how = PTRACE_CONT, given = 0;
    if (number == (SIGTRAP | 0x80))
      at_return(pid);
    else if (number == SIGTRAP && event == PTRACE_EVENT_SECCOMP)
      how = at_call(pid);
    else if (event == PTRACE_EVENT_FORK || event == PTRACE_EVENT_VFORK)
      add_child(pid);
    else if (number != SIGSTOP && !(number == SIGTRAP && event != 0))
      given = number;  // a signal of the program's own
    ptrace(how, pid, 0, given);
  }
}

static void read_fault(const char* text) {
  char plus = 0;
  const int n = sscanf(text, "%15[a-z]:%lu:%15[a-z]=%ld%c", fault.kind, &fault.at, fault.what,
                       &fault.value, &plus);
  if (n < 4) {
    fprintf(stderr, "inject: %s: expected CLASS:N:FAULT=NUMBER\n", text);
    _exit(125);
  }
  fault.on = 1;
  fault.from = plus == '+';
}

static void read_flags(int argc, char** argv) {
  for (int option; (option = getopt(argc, argv, "+d:o:f:r:t:as")) != -1;) {
    if (option == 'd') folder = optarg;
    if (option == 'o' && (log_file = fopen(optarg, "we")) == NULL) fail(optarg);
    if (option == 'f') read_fault(optarg);
    if (option == 'r') room = strtoll(optarg, NULL, 10);
    if (option == 't') alarm((unsigned)atoi(optarg));
    if (option == 'a') count_all = 1;
    if (option == 's') streams_first = 1;
    if (option == '?') _exit(125);
  }
  if (folder != NULL && log_file != NULL) return;
  fprintf(stderr, "inject: expected -d FOLDER -o LOG … PROGRAM\n");
  _exit(125);
}

void inject(int argc, char** argv);
void inject(int argc, char** argv) {
  read_flags(argc, argv);
  const pid_t program = fork();
  if (program < 0) fail("fork");
  if (program == 0) {
    begin_program(argv + optind);
    return;
  }
  const int status = trace(program);
  if (fclose(log_file) != 0) fail("the log");
  if (!WIFSIGNALED(status)) _exit(WEXITSTATUS(status));
  const struct rlimit none = {0, 0};
  setrlimit(RLIMIT_CORE, &none);
  signal(WTERMSIG(status), SIG_DFL);
  kill(getpid(), WTERMSIG(status));
  _exit(128 + WTERMSIG(status));
}

int main(int argc, char** argv) {
  if (argc > 1) inject(argc, argv);
  return 125;
}
