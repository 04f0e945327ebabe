// Reset, vectors and semihosting for Cortex-M3 … M55: everything between power-on and main().
// The architecture's registers: ARMv7-M and ARMv8-M reference manuals, B3.2 (CPACR, CCR).
#include "board.h"

extern uint32_t _sidata[], _sdata[], _edata[], _sbss[], _ebss[], _estack[];
extern void (*__init_array_start[])(void);
extern void (*__init_array_end[])(void);
int main(void);

static const uint32_t kPaint = 0xC5C5C5C5u;

__attribute__((naked, noreturn, used)) void Reset_Handler(void) {
  __asm volatile("ldr r0, =_estack\n mov sp, r0\n b reset_in_c\n");
}

__attribute__((used, noreturn)) void reset_in_c(void) {
#if defined(__ARM_FP) || defined(__ARM_FEATURE_MVE)
  // CPACR: floating-point unit on, before any instruction of its own
  *(volatile uint32_t*)0xE000ED88u |= 0xFu << 20;
  __asm volatile("dsb\n isb" ::: "memory");
#endif
#if defined(__ARM_FEATURE_MVE)
  *(volatile uint32_t*)0xE000ED14u |= 1u << 19;  // CCR.LOB: low-overhead branches
  __asm volatile("dsb\n isb" ::: "memory");
#endif
  for (uint32_t *to = _sdata, *from = _sidata; to != _edata;) *to++ = *from++;
  for (uint32_t* p = _sbss; p != _ebss;) *p++ = 0;
  // Paint the stack below this frame, to see later how deep it went.
  uint32_t* here = (uint32_t*)__builtin_frame_address(0) - 16;
  for (uint32_t* p = _ebss; p < here; ++p) *(volatile uint32_t*)p = kPaint;
  for (void (**f)(void) = __init_array_start; f != __init_array_end; ++f) (*f)();
  board_exit(main());
  for (;;) {
  }
}

static void fault(void) {
  board_puts("fault\n");
  board_exit(111);
  for (;;) {
  }
}

__attribute__((section(".isr_vector"), used)) static const void* const vectors[16] = {
    _estack, Reset_Handler, fault, fault, fault, fault, fault, fault, 0, 0,
    0,       fault,         fault, 0,     fault, fault};

static int semihost(int op, const void* argument) {
  register int r0 __asm("r0") = op;
  register const void* r1 __asm("r1") = argument;
  __asm volatile("bkpt 0xAB" : "+r"(r0) : "r"(r1) : "memory");
  return r0;
}
void board_puts(const char* text) { semihost(0x04, text); }
void board_exit(int code) {
  const uint32_t block[2] = {0x20026u, (uint32_t)code};
  semihost(0x20, block);
}

size_t board_stack_used(void) {
  const uint32_t* p = _ebss;
  while (p < _estack && *(const volatile uint32_t*)p == kPaint) ++p;
  return (size_t)((const char*)_estack - (const char*)p);
}
size_t board_stack_size(void) { return (size_t)((const char*)_estack - (const char*)_ebss); }
