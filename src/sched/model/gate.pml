/* The gate, and a P that is taken from outside it: enter, leave and retake of src/sched/, for the
 * model checker SPIN.
 *
 * THE TENSION. Every entry of user code into the runtime passes the gate, so it may cost a
 * nanosecond or two: a plain store and a plain load, no fence. On the other side is the monitor,
 * which takes the P of an M that is stuck in the kernel, a thousand times a second at most, and
 * can pay for a system call that makes every running thread pass a full barrier (membarrier):
 *
 *     M: enter()                         monitor: retake()
 *       depth = 1                          retake = 1
 *       (compiler barrier)                 membarrier
 *       read retake                        read depth
 *
 * If M reads 0, its load came before the barrier, its store too, and the monitor reads 1 and lets
 * go. If the monitor reads 0, M's load comes after the barrier and reads 1. If each missed the
 * other, two Ms would have one P.
 *
 * WHAT IS MODELLED. M 0 runs user code, and inside the gate changes what belongs to its P: reads
 * a word, writes it back one higher. SECTIONS times. The monitor suspects it of being blocked at
 * any moment, RETAKES times, rightly or not: the look at the kernel's state of the thread is a
 * hint, not part of the proof. A P taken is handed to M 1, which uses it the same way, then puts
 * it on the idle list, where M 0 may find it.
 *
 * M 0's stores go through a store buffer, one slot for each variable, which empties at any
 * moment and in any order: more freedom than x86 gives and as much as aarch64 takes. A release
 * store, `depth = 0` in leave(), leaves the buffer only after the stores before it. Loads are done
 * in order: the load of retake is an acquire. Taking a lock and letting go of it empties the
 * buffer, and so does membarrier for all threads at once. Stores of the monitor and of M 1 are
 * done at once, as they are made under the lock or before the barrier.
 *
 * WHAT IS LEFT OUT. Nested entry (only the step from depth 0 to 1 looks at retake), the signal
 * handler, and what M does without a P (protocol.pml: in_call).
 *
 * INVARIANTS. At most one M at a time is inside the gate with the P. No change to what belongs
 * to the P is lost. The P is in one hand, or idle, always. Whoever comes to enter() gets past it,
 * with a P or as a spare M without one: at rest nobody waits.
 *
 * SWITCHES (spin -D). SECTIONS, RETAKES; FENCE: a fence in enter() and no membarrier, where the
 * kernel has none; BUG=name.
 */

#define retake_without_barrier    1   /* neither membarrier nor fence */
#define enter_looks_first         2   /* reads retake, then stores depth */
#define leave_without_release     3   /* depth = 0 overtakes the stores made inside */
#define enter_trusts_first_look   4   /* slow path does not look again under the lock */
#define abort_keeps_retake        5   /* monitor lets go, but leaves the flag up */
#define retake_looks_first        6   /* reads depth, then stores retake */
#ifndef BUG
#define BUG 0
#endif
#ifndef SECTIONS
#define SECTIONS 2
#endif
#ifndef RETAKES
#define RETAKES 2
#endif

#define EMPTY 255

/* What is in memory. */
bool lock_taken;
byte depth;              /* M 0's: inside the gate */
bool retake;             /* M 0's: a request to give up its P */
byte word;               /* belongs to the P */

/* What M 0 has stored and nobody else has seen yet. */
byte depth_slot = EMPTY;
bool depth_is_release;
byte word_slot = EMPTY;

/* Under the lock. */
#define M0   0
#define M1   1
#define idle 2
byte owner = M0;         /* whose the P is */
bool m1_woken;

/* For the assertions. */
byte inside;
byte changes;

inline lock()   { atomic { !lock_taken -> lock_taken = true } }
inline unlock() { lock_taken = false }

inline flush() {
  d_step {
    if
    :: word_slot != EMPTY -> word = word_slot; word_slot = EMPTY
    :: else
    fi;
    if
    :: depth_slot != EMPTY -> depth = depth_slot; depth_slot = EMPTY; depth_is_release = false
    :: else
    fi
  }
}

/* The hardware empties the buffer when it likes. */
active proctype store_buffer() {
end:
  do
  :: d_step { word_slot != EMPTY -> word = word_slot; word_slot = EMPTY }
  :: d_step {
       depth_slot != EMPTY && !(depth_is_release && word_slot != EMPTY) ->
       depth = depth_slot;
       depth_slot = EMPTY;
       depth_is_release = false
     }
  od
}

/* A later store to the same variable takes the place of the earlier one. */
inline store_depth(value, release) {
  d_step { depth_slot = value; depth_is_release = release }
}

/* Reads one's own store where there is one. */
inline load_word(x)  { d_step { x = (word_slot != EMPTY -> word_slot : word) } }
inline store_word(x) { word_slot = x }

active proctype M_0() {
  byte sections = SECTIONS;
  byte seen;
  bool asked;

user_code:
  if
  :: sections == 0 -> goto done
  :: else -> sections--
  fi;

enter:
#if BUG == enter_looks_first
  asked = retake;
  store_depth(1, false);
#else
  store_depth(1, false);
#ifdef FENCE
  flush();
#endif
  asked = retake;
#endif
  if
  :: !asked -> goto within
  :: else
  fi;

enter_slow:
  atomic { lock(); flush() };
#if BUG != enter_trusts_first_look
  if
  :: !retake -> unlock(); goto within   /* the monitor let go of it */
  :: else
  fi;
#endif
  retake = false;
  assert(owner != M0);
  if
  :: owner == idle -> owner = M0; unlock(); goto within
  :: else
  fi;
  /* Its goroutine is in the global queue now. */
  store_depth(0, true);
  flush();
  unlock();
  goto spare;

within:
  atomic { asked = false; assert(owner == M0); inside++; assert(inside == 1) };
  load_word(seen);
  store_word(seen + 1);
  atomic { seen = 0; changes++; inside-- };

leave:
#if BUG == leave_without_release
  store_depth(0, false);
#else
  store_depth(0, true);
#endif
  goto user_code;

spare:
done:
  skip
}

/* Uses the P only under the lock's protection of `owner`: it was handed over. */
active proctype M_1() {
  byte seen;
end:
  do
  :: atomic { m1_woken -> m1_woken = false; inside++; assert(inside == 1) };
    seen = word;
    word = seen + 1;
    atomic { seen = 0; changes++; inside-- };
    lock();
    assert(owner == M1);
    owner = idle;
    unlock()
  od
}

active proctype monitor() {
  byte retakes = RETAKES;
  byte seen;

watch:
  do
  :: retakes > 0 ->
    retakes--;
    lock();
    if
    :: owner != M0 || retake -> unlock(); goto watch
    :: else
    fi;
#if BUG == retake_looks_first
    seen = depth;
    retake = true;
    flush();
#else
    retake = true;
#if !defined(FENCE) && BUG != retake_without_barrier
    flush();   /* membarrier */
#endif
    seen = depth;
#endif
    if
    :: seen > 0 ->
#if BUG != abort_keeps_retake
      retake = false;
#endif
      unlock()
    :: else -> atomic { owner = M1; m1_woken = true; unlock() }
    fi;
    seen = 0
  :: else -> break
  od
}

/* timeout: nobody can take a step. */
active proctype watcher() {
  timeout ->
  assert(!lock_taken);
  assert(word == changes)
}
