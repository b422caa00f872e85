// The switch on x86-64.
//
// Inline, because the processor predicts returns by pairing them with calls: a switch that is
// called and left by a jump puts every later return of the arriving fiber out of step (measured
// with eight frames to return through: 80 ns instead of 14). Here nothing is called, nothing is
// pushed, and the one indirect jump is predicted by its history.
//
// Three words are stored, the compiler does the rest: all other registers are declared as
// clobbered, so what is live is on the stack already, and only that. rbp cannot be declared (it
// is the frame pointer in some builds), so it is stored by hand. The x87 and SSE control words
// stay the thread's: keeping them per fiber would double the cost of a switch.
//
// Shadow stacks (CET) are not supported: the library is built without the mark that asks for
// them, and the linker then leaves them off.
#pragma once

namespace magpie::rt {

struct thread_state;

struct context {
  void* stack_pointer;    // +0
  void* program_counter;  // +8
  void* frame_pointer;    // +16
};

#if defined(__AVX512F__)
#define MAGPIE_AVX512_REGISTERS                                                                 \
  , "xmm16", "xmm17", "xmm18", "xmm19", "xmm20", "xmm21", "xmm22", "xmm23", "xmm24", "xmm25",   \
      "xmm26", "xmm27", "xmm28", "xmm29", "xmm30", "xmm31", "k0", "k1", "k2", "k3", "k4", "k5", \
      "k6", "k7"
#else
#define MAGPIE_AVX512_REGISTERS
#endif

// Stores where `from` stands and goes on at `to`. Comes back when somebody switches to `from`,
// with what that somebody gave as `thread`. Arriving code finds `to` in rsi and `thread` in rax:
// entry_x86_64.S relies on it.
[[gnu::always_inline]] inline thread_state* switch_context(context* from, context* to,
                                                           thread_state* thread) {
  asm volatile(
      "leaq 1f(%%rip), %%rcx\n\t"
      "movq %%rsp, 0(%%rdi)\n\t"
      "movq %%rcx, 8(%%rdi)\n\t"
      "movq %%rbp, 16(%%rdi)\n\t"
      "movq 0(%%rsi), %%rsp\n\t"
      "movq 16(%%rsi), %%rbp\n\t"
      "jmpq *8(%%rsi)\n"
      "1:"
      : "+a"(thread), "+D"(from), "+S"(to)
      :
      : "rbx", "rcx", "rdx", "r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15", "xmm0", "xmm1",
        "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", "xmm11", "xmm12",
        "xmm13", "xmm14", "xmm15", "st", "st(1)", "st(2)", "st(3)", "st(4)", "st(5)", "st(6)",
        "st(7)", "mm0", "mm1", "mm2", "mm3", "mm4", "mm5", "mm6", "mm7", "cc",
        "memory" MAGPIE_AVX512_REGISTERS);
  return thread;
}

#undef MAGPIE_AVX512_REGISTERS

}  // namespace magpie::rt
