/* How sleeping Ms learn of work: the protocol of src/sched/idle.cpp, for the model checker SPIN.
 *
 * THE TENSION. Waking a thread costs microseconds, so a submitter wakes nobody when somebody is
 * already looking for work, and a thread that finds nothing goes to sleep. Both decide by what
 * they see of the other. If each misses the other, a goroutine waits beside an idle P until
 * something else happens: a lost wake-up. Go had one for ten years, because its watcher thread
 * repairs the damage after 10 ms. A test meets such an interleaving once in a million runs; here
 * all of them are tried.
 *
 * WHAT IS PROVEN. For every program of at most SPAWNS spawns, YIELDS yields, BLOCKS blocking
 * calls (each may return or not), HOGS goroutines that never end and INJECTS submissions from a
 * plain thread, in every interleaving on NP Ps and NM Ms:
 *
 *   safety     A P is in one hand at a time. A P on the idle list has an empty queue. The
 *              spinning count is not negative, and nobody sleeps spinning. An M is woken once for
 *              each sleep.
 *   liveness   Every run comes to rest, and when it rests no goroutine waits while a P is idle,
 *              no P is lost and nobody is counted as spinning. So every goroutine submitted runs,
 *              unless hogs hold all Ps. The second half is the assertion in watcher(); the first
 *              is the search for cycles, of which there are none, fair or not.
 *              With ENDLESS goroutines spawn, yield and block for ever. Then the formula
 *              work_conserving, at the end, is checked under weak fairness.
 *
 * TWO WAYS. An M that holds a P, finds nothing and does not spin, because others do, gives its P
 * up. Meanwhile somebody may have seen work and no idle P, and rely on that M. In the C++, and
 * here without GO, every M looks at all queues after it gave up a P, spinning or not, and so does
 * hand_off_p. In Go only spinners do, and those who saw work and no P leave a flag, need_spinning,
 * that the others read under the lock. That is GO, with a repair; see hand_off_p.
 *
 * WHAT IS LEFT OUT.
 *   - A run queue is a number. Goroutines are alike until they choose what to do next, so the
 *     order in a queue, run_next and the look at the global queue every 61st time make no
 *     difference. That a queue neither loses nor doubles a G is for its own tests. Nobody is
 *     drowsy: a goroutine in run_next is one like the others. Those who are: doze.pml.
 *   - An operation on a run queue is one step, and so is a section under the scheduler's lock.
 *     FINE takes sections apart: the lock becomes a real one, and those who read without it see
 *     every state in between.
 *   - With LATE_STORES what an M puts into its queue stays unseen by others until the store leaves
 *     the M's store buffer, at any later moment, or a heavy fence makes it. Otherwise memory is
 *     sequentially consistent. The store buffer at the gate is in gate.pml.
 *   - A thief looks at each P once, in the order of their numbers; the idle P and the idle M of
 *     the lowest number are taken first.
 *   - Where no M is idle the P waits for the next one, as it would for the spawner thread.
 *   - blocking() hands its P off itself. Here the monitor does, and it may do so at once.
 *   - Overflow of a ring, timers, the poller, set_procs, preemption, locked threads.
 *
 * THE GATE. A P is taken from an M in a blocking call, or stuck in the kernel outside the gate.
 * Both are one compare-and-swap on call_of[p] here. That the gate, a count and a flag with a
 * barrier on one side only, is as good as a compare-and-swap is proven in gate.pml.
 *
 * IN THE C++ the same names are found in schedule.cpp and steal.cpp (find_runnable, steal_work),
 * idle.cpp (wake_p, start_m, become_spinning, stop_spinning, give_up_p, last_look, take_p_back),
 * spawn.cpp and park.cpp (spawn and ready are `spawned` here; yield), syscall.cpp (enter_syscall
 * and exit_syscall around `in_call`, hand_off_p) and sysmon.cpp (look_at_calls is retake).
 * outsider() is spawn or ready on a plain thread.
 *
 * SWITCHES for spin -D: NP NM SPAWNS YIELDS BLOCKS HOGS INJECTS; FINE; LATE_STORES; ENDLESS=1; GO;
 * BUG=name for a protocol with that bug. tools/check_model runs them and knows what to expect;
 * `tools/check_model --trail only_spinners_look` shows how that bug comes about.
 */

#ifndef NP
#define NP 2
#endif
#ifndef NM
#define NM 4
#endif
#ifndef SPAWNS
#define SPAWNS 0
#endif
#ifndef YIELDS
#define YIELDS 0
#endif
#ifndef BLOCKS
#define BLOCKS 0
#endif
#ifndef HOGS
#define HOGS 0
#endif
#ifndef INJECTS
#define INJECTS 0
#endif
#ifndef ENDLESS
#define ENDLESS 0
#endif

/* The bugs, each explained where it is. */
#define no_local_recheck                1
#define no_global_recheck               2
#define only_spinners_look              3
#define yield_without_wake              4
#define no_wake_after_spinning          5
#define sleep_without_fence             6
#define batch_without_wake              7
#define forgets_what_it_saw             8
#define inject_without_wake             9
#define spawn_without_wake              13
#define hand_off_forgets_local_work     10
#define hand_off_without_look           11
#define retake_in_two_steps             12
/* Only with GO. */
#define no_need_spinning                20
#define wake_p_trusts_idle_count        21
#define hand_off_ignores_need_spinning  22
#define exit_syscall_in_two_sections    23
#ifndef BUG
#define BUG 0
#endif

/* A section under the scheduler's lock: one step, or with FINE one step for each statement.
   After UNLOCK there is only local bookkeeping.
   MERGED joins steps, but not with FINE. Mostly this loses nothing, as all but one of them are
   seen by nobody else: a queue without an owner that puts into it stays empty, and where an M
   sleeps or wakes up makes no difference before its next step. */
#ifdef FINE
bool locked;
#define LOCK   atomic { !locked -> locked = true }; {
#define UNLOCK locked = false
#define MERGED {
#else
#define LOCK   atomic {
#define UNLOCK skip
#define MERGED atomic {
#endif
#define END }

#define NONE NP
#define bit(i) (1 << (i))

byte run_queue[NP];       /* how many goroutines */
byte global_queue;        /* under the lock; its length is read by anybody */
byte idle_p_set;          /* under the lock */
byte idle_count;          /* of Ps; written under the lock, read by anybody */
byte idle_m_set;          /* under the lock */
byte spinning_count;      /* atomic */
bool need_spinning;       /* under the lock; only with GO */
byte call_of[NP];         /* 1 + the M whose blocking call may lose this P; 0: nobody's */

byte next_p[NM] = NONE;   /* P handed to a sleeping M, with the wake-up */
bool next_spinning[NM];
byte start_set;           /* Ps whose start_m found no idle M */
byte start_spinning_set;

/* What the programs may still do. */
byte spawns = SPAWNS, yields = YIELDS, blocks = BLOCKS, hogs = HOGS, injects = INJECTS;

/* For the assertions. */
byte held_p_set;          /* Ps that some M may use now */
byte hogging;             /* Ps held by goroutines that never end */

byte looking_set;         /* Ms that take their last look; see choose_idle_m */

#if NP == 2
#define queued (run_queue[0] + run_queue[1] + global_queue)
#elif NP == 3
#define queued (run_queue[0] + run_queue[1] + run_queue[2] + global_queue)
#endif

/* ---- Stores to a run queue, and fences ----------------------------------------------------- */

#ifdef LATE_STORES
byte unseen[NP];          /* in the queue, but in the store buffer of the M that put them there */

#define put_into_queue(x, count) unseen[x] = unseen[x] + (count)

inline see(x) { run_queue[x] = run_queue[x] + unseen[x]; unseen[x] = 0 }

#if NP == 2
#define see_all() see(0); see(1)
#else
#define see_all() see(0); see(1); see(2)
#endif

/* membarrier: every thread passes a full barrier. */
inline heavy_fence() {
#if BUG != sleep_without_fence
  d_step { see_all() }
#else
  skip
#endif
}

/* Store buffers empty when they like. */
proctype store_buffers() {
end_idle:
  do
  :: d_step { unseen[0] > 0 -> see(0) }
  :: d_step { unseen[1] > 0 -> see(1) }
#if NP > 2
  :: d_step { unseen[2] > 0 -> see(2) }
#endif
  od
}

#else
#define put_into_queue(x, count) run_queue[x] = run_queue[x] + (count)
inline see(x) { skip }
inline heavy_fence() { skip }
#endif

/* ---- idle.cpp: idle Ps, under the lock ----------------------------------------------------- */

inline put_idle_p(x) {
  d_step {
    assert(run_queue[x] == 0);
    assert(!(idle_p_set & bit(x)));
    idle_p_set = idle_p_set | bit(x);
    idle_count++
  }
}

inline take_idle_p(x) {
  d_step {
    x = 0;
    do
    :: x < NP && !(idle_p_set & bit(x)) -> x++
    :: else -> break
    od;
    if
    :: x < NP -> idle_p_set = idle_p_set & ~bit(x); idle_count--
    :: else
    fi
  }
}

/* For those who saw work. With GO whoever gives up a P next shall look again.
   BUG=no_need_spinning is Go's issue 45867. */
inline take_idle_p_for_work(x) {
  take_idle_p(x);
#if defined(GO) && BUG != no_need_spinning
  if
  :: x == NONE -> need_spinning = true
  :: else
  fi
#endif
}

inline become_spinning() {
  spinning_count++;
  need_spinning = false
}

/* ---- idle.cpp: waking Ms ------------------------------------------------------------------- */

/* m: any idle M that still takes its last look, or the first of those that are asleep, which are
   all alike; NM if there is none. */
#define looks(i) (idle_m_set & looking_set & bit(i))
inline choose_idle_m() {
  atomic {
    if
    :: looks(0) -> m = 0
    :: looks(1) -> m = 1
    :: looks(2) -> m = 2
#if NM > 3
    :: looks(3) -> m = 3
#endif
#if NM > 4
    :: looks(4) -> m = 4
#endif
    :: idle_m_set & ~looking_set ->
      m = 0;
      do
      :: !(idle_m_set & ~looking_set & bit(m)) -> m++
      :: else -> break
      od
    :: else -> m = NM
    fi;
    skip   /* spin wants no loop to end right before a d_step */
  }
}

/* Wakes an idle M with the P x. Uses the caller's variable m. */
inline start_m(x, spins) {
  LOCK
    choose_idle_m();
    d_step {
      if
      :: m < NM ->
        idle_m_set = idle_m_set & ~bit(m);
        assert(next_p[m] == NONE);
        next_p[m] = x;
        next_spinning[m] = spins
      :: else ->
        start_set = start_set | bit(x);
        if
        :: spins -> start_spinning_set = start_spinning_set | bit(x)
        :: else
        fi
      fi;
      x = NONE;
      m = 0
    };
    UNLOCK
  END
}

/* Called after work was published. The bargain:
 *
 *     submitter                            M that gives up its P
 *       publish the work                     idle_count++, spinning_count-- if it spins
 *       fence                                fence
 *       look at idle_count, spinning_count   look at every queue
 *
 * With GO there is no look at idle_count: under the lock it may turn out that all Ps are busy,
 * and then need_spinning is set. BUG=wake_p_trusts_idle_count looks and does not set it.
 *
 * x: the caller's variable for a P. */
inline wake_p(x) {
  do
#if !defined(GO) || BUG == wake_p_trusts_idle_count
  :: idle_count == 0 -> break
  :: idle_count > 0 ->
#else
  :: true ->
#endif
    atomic {
      if
      :: spinning_count == 0 -> spinning_count = 1
      :: else -> break
      fi
    };
    MERGED
      LOCK
        take_idle_p_for_work(x);
        if
        :: x == NONE -> spinning_count--
        :: else
        fi;
        UNLOCK
      END;
      if
      :: x != NONE -> start_m(x, true)
      :: else
      fi;
      break
    END
  od
}

/* ---- schedule.cpp, steal.cpp, idle.cpp: what an M does -------------------------------------- */

/* With the lock held: one to run, the rest for the M's own queue. It comes there later: see
   publish_rest. */
inline take_batch() {
  d_step {
    n = global_queue / NP + 1;
    if
    :: n > global_queue -> n = global_queue
    :: else
    fi;
    global_queue = global_queue - n;
    n--;
    found = true
  }
}

#define first_victim (p == 0 -> 1 : 0)

/* The M has a goroutine in its hands. */
inline execute() {
  found = false;
  if
  :: n > 0 -> goto publish_rest
  :: n == 0 && spinning -> goto stop_spinning
  :: else -> goto running
  fi
}

inline from_own_or_global_queue() {
  atomic {
    see(p);
    if
    :: run_queue[p] > 0 -> run_queue[p]--; execute()
    :: else
    fi
  };
  LOCK
    if
    :: global_queue > 0 -> take_batch()
    :: else
    fi;
    UNLOCK;
    if
    :: found -> execute()
    :: !found && spinning -> v = first_victim; goto steal_work
    :: else -> goto look_at_others
    fi
  END
}

/* With the lock held, and no P: from here on the M can be handed one. */
inline join_idle_ms() {
  d_step {
    assert(p == NONE && next_p[id] == NONE);
    if
    :: start_set != 0 ->
      v = 0;
      do
      :: !(start_set & bit(v)) -> v++
      :: else -> break
      od;
      next_p[id] = v;
      next_spinning[id] = (start_spinning_set & bit(v)) != 0;
      start_set = start_set & ~bit(v);
      start_spinning_set = start_spinning_set & ~bit(v);
      v = 0
    :: else -> idle_m_set = idle_m_set | bit(id)
    fi
  }
}

inline wake_up() {
  atomic {
    next_p[id] != NONE ->
    assert(p == NONE && !spinning);
    p = next_p[id];
    next_p[id] = NONE;
    spinning = next_spinning[id];
    next_spinning[id] = false;
    acquire_p()
  }
}

inline fall_asleep() {
  looking_set = looking_set & ~bit(id);
  goto sleeping
}

inline acquire_p() {
  d_step { assert(!(held_p_set & bit(p))); held_p_set = held_p_set | bit(p) }
}
inline release_p() {
  d_step { assert(held_p_set & bit(p)); held_p_set = held_p_set & ~bit(p) }
}

proctype M(byte id) {
  byte p = NONE;
  bool spinning = false;
  byte other = NONE;      /* a P for somebody else */
  byte m = 0;             /* see start_m */
  byte v = 0;             /* the P looked at */
  byte n = 0;             /* goroutines taken along and not yet in the own queue */
  bool found = false;

  goto sleeping;

find_runnable:
  MERGED
    from_own_or_global_queue()
  END;

look_at_others:
  MERGED
    atomic {
      if
      :: 2 * spinning_count < NP - idle_count -> spinning = true
      :: else -> goto give_up_p
      fi
    };
    become_spinning();
    v = first_victim;
    goto steal_work
  END;

steal_work:
  atomic {
    if
    :: run_queue[v] > 0 ->
      n = run_queue[v] - run_queue[v] / 2 - 1;
      run_queue[v] = run_queue[v] / 2;
      v = 0;
      execute()
    :: else ->
      v++;
      if
      :: v == p -> v++
      :: else
      fi;
      if
      :: v >= NP -> v = 0; goto give_up_p
      :: else -> goto steal_work
      fi
    fi
  };

/* Goroutines that came with the one to run. A spinner wakes somebody anyway. So must one that does
   not spin, for its share of the global queue: an M that gave up its P meanwhile has seen them in
   neither queue. BUG=batch_without_wake. */
publish_rest:
  atomic {
    put_into_queue(p, n);
    n = 0;
    if
    :: !spinning && BUG != batch_without_wake -> goto wake_and_run
    :: else
    fi;
    execute()
  };

give_up_p:
  MERGED
    LOCK
      if
      :: global_queue > 0
#ifdef GO
      :: global_queue == 0 && !spinning && need_spinning -> become_spinning(); spinning = true
#endif
      :: else ->
        release_p();
        put_idle_p(p);
        p = NONE;
        join_idle_ms()
      fi;
      UNLOCK
    END;
    if
    :: p != NONE -> goto find_runnable
#if defined(GO) || BUG == only_spinners_look
    :: p == NONE && !spinning -> goto sleeping
#endif
    :: else -> looking_set = looking_set | bit(id)
    fi;
    if
    :: spinning -> goto stop_looking
    :: else -> goto last_look
    fi
  END;

/* The P is on the idle list. Only now is this M no spinner any more, and only then it looks. */
stop_looking:
  atomic { assert(spinning_count > 0); spinning_count--; spinning = false };

/* BUG=only_spinners_look is Go's issue 45867: work that was seen when all Ps were held is left
   to their Ms, and one that gives its P up does not look. */
last_look:
#ifdef LATE_STORES
  heavy_fence();
#endif

/* BUG=no_global_recheck is Go from 2013 to 2023: issue 55160. */
look_at_global_queue:
  MERGED
    atomic {
      if
      :: global_queue > 0 && BUG != no_global_recheck -> goto take_p_back
      :: else
      fi
    };
#if BUG == no_local_recheck
    fall_asleep()
#endif
  END;

look_at_queues:
  atomic {
    if
    :: run_queue[v] > 0 -> v = 0; goto take_p_back
    :: else -> v++
    fi;
    if
    :: v < NP -> goto look_at_queues
    :: else -> v = 0; fall_asleep()
    fi
  };

/* Without an idle P all Ps are held, and who gives one up looks. */
take_p_back:
  MERGED
    LOCK
      if
      :: idle_m_set & bit(id) ->
        take_idle_p_for_work(p);
        if
        :: p != NONE -> idle_m_set = idle_m_set & ~bit(id); become_spinning(); spinning = true
        :: else
        fi
      :: else -> found = true
      fi;
      UNLOCK
    END;
    if
    :: p != NONE -> looking_set = looking_set & ~bit(id); acquire_p(); goto find_runnable
    :: p == NONE && found -> found = false; goto handed_while_looking
    :: else -> fall_asleep()
    fi
  END;

/* Somebody has handed it a P meanwhile, maybe not to look for work but to run what is in that P's
   queue. Then another one must look for the work seen here: the submitter may have counted on
   this M, as a spinner. BUG=forgets_what_it_saw. */
handed_while_looking:
  MERGED
    wake_up();
    looking_set = looking_set & ~bit(id);
    if
    :: !spinning && BUG != forgets_what_it_saw -> goto wake_and_look
    :: else -> goto find_runnable
    fi
  END;

wake_and_look:
  wake_p(other);
  goto find_runnable;

sleeping:
end_sleeping:
  MERGED
    wake_up();
    from_own_or_global_queue()
  END;

/* There may be more work where this came from, and this M no longer looks for it: another one
   shall, in the place of this one. BUG=no_wake_after_spinning needs three Ps to be seen. */
stop_spinning:
  atomic { assert(spinning_count > 0); spinning_count--; spinning = false };
#if BUG == no_wake_after_spinning
  goto running;
#endif

wake_and_run:
  wake_p(other);

/* The goroutine does whatever it likes. */
running:
  if
  :: atomic { spawns > 0 -> spawns--; put_into_queue(p, 1); goto spawned }
  :: MERGED
    atomic { yields > 0 -> yields = yields - !ENDLESS };
    LOCK
      global_queue++;
      UNLOCK;
      goto yield
    END
  END
  :: atomic { blocks > 0 -> blocks--; see(p); release_p(); call_of[p] = id + 1; goto in_call }
  :: atomic { hogs > 0 -> hogs--; hogging++; goto end_hog }
  :: MERGED spawns = spawns + ENDLESS; from_own_or_global_queue() END
  fi;

spawned:
#if BUG == spawn_without_wake
  goto running;
#endif
  goto wake_and_run;

/* Through the global queue, as one that used up its slice. A yield through the own queue is a
   spawn and an end to this model. BUG=yield_without_wake is Go until 2023: issue 55160. */
yield:
#if BUG == yield_without_wake
  goto find_runnable;
#else
  goto wake_and_look;
#endif

/* enter_syscall is done. The call ends with the P still there, or never, or without it. */
in_call:
  if
  :: atomic { call_of[p] == id + 1 -> call_of[p] = 0; acquire_p(); blocks = blocks + ENDLESS; goto running }
  :: atomic { call_of[p] == id + 1 -> goto end_call }
#ifndef GO
  :: MERGED
    atomic { call_of[p] != id + 1 -> p = NONE; blocks = blocks + ENDLESS };
    LOCK
      take_idle_p(p);
      UNLOCK
    END;
    if
    :: p != NONE -> acquire_p(); goto running
    :: else -> goto leave_to_global_queue
    fi
  END
  fi;

leave_to_global_queue:
  LOCK
    global_queue++;
    UNLOCK
  END;
  wake_p(other);
  MERGED
    LOCK
      join_idle_ms();
      UNLOCK
    END;
    looking_set = looking_set | bit(id);
    goto last_look
  END;

#else
  :: atomic { call_of[p] != id + 1 -> p = NONE; blocks = blocks + ENDLESS }
  fi;

/* One section: while no P is idle, whoever gives one up sees the global queue under the same
   lock, so nobody needs to be woken. */
  MERGED
    LOCK
      take_idle_p(p);
#if BUG == exit_syscall_in_two_sections
      UNLOCK
    END;
  END;
  MERGED
    LOCK
#endif
      if
      :: p == NONE -> global_queue++; join_idle_ms()
      :: else
      fi;
      UNLOCK
    END;
    if
    :: p == NONE -> goto sleeping
    :: else -> acquire_p(); goto running
    fi
  END;
#endif

end_call:
end_hog:
  false
}

/* ---- sysmon.cpp, syscall.cpp ---------------------------------------------------------------- */

#if BUG == retake_in_two_steps
#define retake(x) call_of[x] != 0 -> p = x; call_of[x] = 0
#else
#define retake(x) atomic { call_of[x] != 0 -> call_of[x] = 0; p = x }
#endif

/* A P in nobody's hands: whatever find_runnable would find for it must get it an M. */
proctype monitor() {
  byte p = NONE;
  byte other = NONE;
  byte m = 0;
  byte v = 0;
  bool spin = false;

end_watch:
  if
  :: retake(0)
  :: retake(1)
#if NP > 2
  :: retake(2)
#endif
  fi;

hand_off_p:
  MERGED
    if
    :: run_queue[p] > 0 && BUG != hand_off_forgets_local_work -> goto start
    :: else
    fi;
    if
    :: global_queue > 0 -> goto start
    :: else -> goto hand_off_without_work
    fi
  END;

start:
  MERGED
    start_m(p, spin);
    spin = false;
    goto end_watch
  END;

hand_off_without_work:
  if
  :: spinning_count + idle_count > 0 -> goto let_idle
  :: atomic {
       spinning_count + idle_count == 0 ->
       spinning_count = 1;
       need_spinning = false;
       spin = true;
       goto start
     }
  fi;

#ifndef GO
let_idle:
  LOCK
    put_idle_p(p);
    p = NONE;
    UNLOCK
  END;
#if BUG == hand_off_without_look
  goto end_watch;
#endif
#ifdef LATE_STORES
  heavy_fence();
#endif
  if
  :: global_queue > 0 -> goto wake
  :: global_queue == 0
  fi;

look_at_queues:
  atomic {
    if
    :: run_queue[v] > 0 -> v = 0; goto wake
    :: else -> v++
    fi;
    if
    :: v < NP -> goto look_at_queues
    :: else -> v = 0; goto end_watch
    fi
  };

wake:
  wake_p(other);
  goto end_watch

#else
/* A wake_p that looks for a P while this one is on its way here is counted as a spinner, so that
   no M is started for this P; then it finds no P and leaves the flag, which must be seen before
   this P goes idle. BUG=hand_off_ignores_need_spinning does not see it, like Go's handoffp. */
let_idle:
  MERGED
    LOCK
      if
      :: global_queue > 0
#if BUG != hand_off_ignores_need_spinning
      :: global_queue == 0 && need_spinning -> become_spinning(); spin = true
#endif
      :: else -> put_idle_p(p); p = NONE
      fi;
      UNLOCK
    END;
    if
    :: p != NONE -> start_m(p, spin); spin = false
    :: else
    fi;
    goto end_watch
  END
#endif
}

/* ---- A plain thread, which never has a P ----------------------------------------------------- */

proctype outsider() {
  byte other = NONE;
  byte m = 0;

end_outside:
  MERGED
    atomic { injects > 0 -> injects-- };
    LOCK
      global_queue++;
      UNLOCK
    END
  END;
#if BUG != inject_without_wake
  wake_p(other);
#endif
  goto end_outside
}

/* ---- What must hold -------------------------------------------------------------------------- */

/* timeout: nobody else can take a step. */
proctype watcher() {
  timeout ->
  assert(start_set == 0);   /* otherwise NM is too small for so many calls and hogs */
  assert(queued == 0 || idle_count == 0);
  assert(spinning_count == 0);
  assert(idle_count + hogging == NP)
}

#if ENDLESS
ltl work_conserving { []<> !(queued > 0 && idle_count > 0) }
#endif

/* M 0 has P 0 and one goroutine to begin with; all others sleep. */
init {
  byte i = 0;
  d_step {
    do
    :: i < NP -> idle_p_set = idle_p_set | bit(i); i++
    :: else -> break
    od;
    idle_p_set = idle_p_set & ~bit(0);
    idle_count = NP - 1;
    i = 0
  }
  atomic {
    do
    :: i < NM -> run M(i); idle_m_set = idle_m_set | bit(i); i++
    :: else -> break
    od;
    i = 0;
    idle_m_set = idle_m_set & ~bit(0);
    run_queue[0] = 1;
    next_p[0] = 0;
#if BLOCKS > 0
    run monitor();
#endif
#if INJECTS > 0
    run outsider();
#endif
#ifdef LATE_STORES
    run store_buffers();
#endif
    run watcher()
  }
}
