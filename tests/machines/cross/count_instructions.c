/* A plugin for QEMU: counts instructions between the program's marks. A mark is the system call
   getpgid of a number from 1000000 on, which no process has, or, on a board without a system, the
   Thumb instruction `hint #14`; at each the count so far is printed: "mark NUMBER COUNT". Build and
   use: tools/make/cross.mk, bench-cross. QEMU's plugin interface, version 1, by its names and types
   alone ("QEMU TCG Plugins" in QEMU's documentation). */
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#define API __attribute__((visibility("default")))
typedef uint64_t plugin_id;
struct qemu_plugin_tb;
struct qemu_plugin_insn;
void qemu_plugin_register_vcpu_tb_trans_cb(plugin_id, void (*)(plugin_id, struct qemu_plugin_tb*));
void qemu_plugin_register_vcpu_insn_exec_inline(struct qemu_plugin_insn*, int operation,
                                                void* counter, uint64_t add);
void qemu_plugin_register_vcpu_syscall_cb(plugin_id,
                                          void (*)(plugin_id, unsigned, int64_t, uint64_t, uint64_t,
                                                   uint64_t, uint64_t, uint64_t, uint64_t, uint64_t,
                                                   uint64_t));
void qemu_plugin_register_vcpu_insn_exec_cb(struct qemu_plugin_insn*, void (*)(unsigned cpu, void*),
                                            int flags, void*);
const void* qemu_plugin_insn_data(const struct qemu_plugin_insn*);
size_t qemu_plugin_insn_size(const struct qemu_plugin_insn*);
size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb*);
struct qemu_plugin_insn* qemu_plugin_tb_get_insn(const struct qemu_plugin_tb*, size_t);

API int qemu_plugin_version = 1;
static uint64_t total;

static int bare_metal, marks;
static const uint16_t hint = 0xbfe0;

static void hinted(unsigned cpu, void* user) {
  (void)cpu, (void)user;
  fprintf(stderr, "mark %d %llu\n", marks++, (unsigned long long)total);
}

static void translated(plugin_id id, struct qemu_plugin_tb* block) {
  (void)id;
  for (size_t i = 0, n = qemu_plugin_tb_n_insns(block); i < n; ++i) {
    struct qemu_plugin_insn* instruction = qemu_plugin_tb_get_insn(block, i);
    qemu_plugin_register_vcpu_insn_exec_inline(instruction, 0 /* add */, &total, 1);
    if (bare_metal && qemu_plugin_insn_size(instruction) == sizeof hint &&
        memcmp(qemu_plugin_insn_data(instruction), &hint, sizeof hint) == 0)
      qemu_plugin_register_vcpu_insn_exec_cb(instruction, hinted, 0 /* no registers */, NULL);
  }
}

static void called(plugin_id id, unsigned cpu, int64_t number, uint64_t a1, uint64_t a2,
                   uint64_t a3, uint64_t a4, uint64_t a5, uint64_t a6, uint64_t a7, uint64_t a8) {
  (void)id, (void)cpu, (void)number, (void)a2, (void)a3, (void)a4, (void)a5, (void)a6, (void)a7,
      (void)a8;
  if (a1 >= 1000000 && a1 < 1100000)
    fprintf(stderr, "mark %d %llu\n", (int)(a1 - 1000000), (unsigned long long)total);
}

API int qemu_plugin_install(plugin_id id, const void* info, int argc, char** argv) {
  (void)info;
  bare_metal = argc > 0 && strncmp(argv[0], "bare-metal", 10) == 0;
  qemu_plugin_register_vcpu_tb_trans_cb(id, translated);
  qemu_plugin_register_vcpu_syscall_cb(id, called);
  return 0;
}
