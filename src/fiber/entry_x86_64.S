// Where a fresh fiber begins and a finished one ends.
//
// In, from switch_context():     rsi  the fiber (its context is its first member)
//                                rax  the thread's state
//                                rbp  the fiber's entry function, put there by prepare()
//                                rsp  the top of its stack, 16-byte aligned
// Out, to the next context:      rsi  that context        rax  the thread's state
//
//        high ->  +-------------------------------+
//                 | return address into this stub |  the outermost frame: rbp = 0,
//                 +-------------------------------+  and no return address above it
//                 | frames of magpie_fiber_main   |
//
// The call below is matched by a return, so the processor's return predictor is in step when the
// next fiber goes on; a finished fiber's stack is not touched after that return.

        .text
        .globl  magpie_fiber_entry
        .hidden magpie_fiber_entry
        .type   magpie_fiber_entry, @function
magpie_fiber_entry:
        .cfi_startproc
        .cfi_undefined rip              // unwinders: there is no caller
        movq    %rsi, %rdi
        movq    %rbp, %rdx
        movq    %rax, %rsi
        xorl    %ebp, %ebp
        call    magpie_fiber_main       // (fiber, thread, entry) -> rax: context, rdx: thread
        movq    %rax, %rsi
        movq    %rdx, %rax
        movq    0(%rsi), %rsp
        movq    16(%rsi), %rbp
        jmpq    *8(%rsi)
        .cfi_endproc
        .size   magpie_fiber_entry, . - magpie_fiber_entry

        .section .note.GNU-stack, "", @progbits
