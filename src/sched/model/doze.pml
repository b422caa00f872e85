/* Who looks after a goroutine in run_next: drowsy Ms, and thieves that hold back. The protocol of
 * src/sched/idle.cpp and push_next in park.cpp, for the model checker SPIN. protocol.pml has the
 * rest.
 *
 * THE TENSION. A goroutine in run_next will most likely run where it is, so nobody is woken for it
 * while some M is drowsy: that one looks again by itself. But a drowsy M is an M like the others,
 * and may be handed a P to run something else; and it may lie down, or get up, just when somebody
 * relies on it. If the goroutine that runs there goes on for ever then, the one in run_next waits
 * beside an idle P for as long.
 *
 * WHAT IS PROVEN. For at most SPAWNS goroutines that are put into run_next, HOGS that never end,
 * INJECTS submissions from outside and HANDOFFS Ps that are taken from blocking calls, with a
 * goroutine in their queue or without, in every interleaving on NP Ps and NM Ms: when nobody can
 * take a step, and a P is idle, no goroutine waits, in a run_next or elsewhere. A doze ends at any
 * time, but it ends: nobody rests while somebody is drowsy. Nobody is counted as drowsy or as
 * spinning at the end, and a P that is put aside has nothing in its run_next.
 *
 * A THIEF THAT HOLDS BACK (steal.cpp) counts as one that spins, and does not look. It may give up
 * without a single look, when its thread had no processor for a while. So here any spinner may.
 * And it may see a goroutine in run_next and leave it there: it is not to be stolen at once.
 *
 * WHAT IS LEFT OUT. All rings and the global queue are one number. Memory is sequentially
 * consistent: the light fence of push_next pairs with the heavy ones before each look. Offices
 * (watch.pml), timers, and the end of threads, which only wake up more often.
 *
 * IN THE C++ the same names are found in idle.cpp (wake_p, wake_one, give_up_p, last_look,
 * take_p_back, sleep_until_work, class drowsiness), park.cpp (push_next), steal.cpp (appetite,
 * steal_forgotten) and syscall.cpp (hand_off_p).
 *
 * SWITCHES for spin -D: NP NM SPAWNS HOGS INJECTS HANDOFFS; BUG=name. See tools/check_model.
 */

#ifndef NP
#define NP 2
#endif
#ifndef NM
#define NM 3
#endif
#ifndef SPAWNS
#define SPAWNS 0
#endif
#ifndef HOGS
#define HOGS 0
#endif
#ifndef INJECTS
#define INJECTS 0
#endif
#ifndef HANDOFFS
#define HANDOFFS 0
#endif

/* The bugs, each explained where it is. */
#define drowsy_leaves_silently   1
#define left_to_nobody           2
#define no_look_after_doze       3
#define looks_before_doze_ends   4
#ifndef BUG
#define BUG 0
#endif

#define NONE 255
#define bit(i) (1 << (i))

bool run_next[NP];
byte stealable;           /* goroutines in all rings and in the global queue */
byte idle_p_set;          /* under the lock */
byte idle_count;          /* of Ps; changed under the lock, read by anybody */
byte idle_m_set;          /* under the lock */
byte spinning_count;
byte drowsy_count;
byte handed_p[NM] = NONE; /* by whoever took the M off the list */
bool handed_spinning[NM];
bool note[NM];            /* it is woken */

byte spawns = SPAWNS, hogs = HOGS, injects = INJECTS, handoffs = HANDOFFS;

#define is_idle(i) (idle_m_set & bit(i))
#if NP == 2
#define in_run_next (run_next[0] + run_next[1])
#else
#define in_run_next (run_next[0] + run_next[1] + run_next[2])
#endif

/* ---- Under the lock ---------------------------------------------------------------------------- */

inline put_idle_p(x) {
  assert(!run_next[x] && !(idle_p_set & bit(x)));
  idle_p_set = idle_p_set | bit(x);
  idle_count++;
  x = NONE
}

inline take_idle_p(x) {
  if
  :: idle_p_set & bit(0) -> x = 0
  :: !(idle_p_set & bit(0)) && (idle_p_set & bit(1)) -> x = 1
  :: !(idle_p_set & bit(0)) && !(idle_p_set & bit(1)) -> x = 2
  fi;
  idle_p_set = idle_p_set & ~bit(x);
  idle_count--
}

/* Any of them, drowsy or not. */
inline pop_sleeper() {
  if
  :: is_idle(0) -> s = 0
  :: is_idle(1) -> s = 1
#if NM > 2
  :: is_idle(2) -> s = 2
#endif
  fi;
  idle_m_set = idle_m_set & ~bit(s)
}

/* ---- Waking, with what comes after it at woken_all --------------------------------------------- */

inline wake_sleeper(x, spins) {
  atomic { handed_p[s] = x; handed_spinning[s] = spins; x = NONE };
  atomic { note[s] = true; s = 0 }
}

inline wake_one(x) {
  atomic {
    if
    :: spinning_count == 0 -> spinning_count = 1
    :: else -> goto woken_all
    fi
  };
  atomic {
    if
    :: idle_count == 0 -> spinning_count--; goto woken_all
    :: else -> take_idle_p(x)
    fi;
    pop_sleeper()
  };
  wake_sleeper(x, true)
}

/* ---- What an M does ---------------------------------------------------------------------------- */

inline take_p_back() {
  atomic {
    if
    :: is_idle(id) && idle_count > 0 ->
      idle_m_set = idle_m_set & ~bit(id);
      take_idle_p(p);
      spinning_count++;
      spinning = true;
      goto up_again
    :: else
    fi
  }
}

inline execute() {
  if
  :: spinning -> spinning_count--; spinning = false; back = 1; goto wake_p
  :: else -> goto running
  fi
}

proctype M(byte id; byte p) {
  bool spinning = false;
  bool drowsy = false;    /* its share in the count: class drowsiness */
  bool displaced = false;
  bool dozed = false;
  byte seen = 0;          /* 0 none, 1 in run_next only, 2 stealable */
  byte other = NONE;      /* a P for somebody else */
  byte s = 0;
  byte v = 0;
  byte back = 0;          /* where to go on after wake_p: 0 find_runnable, 1 running, 2 get_up */

  if
  :: p == NONE -> goto look
  :: else -> goto running
  fi;

wake_p:
  if
  :: idle_count == 0 -> goto woken_all
  :: else
  fi;
wake_somebody:
  wake_one(other);
woken_all:
  atomic {
    s = 0;
    if
    :: back == 0 -> goto find_runnable
    :: back == 1 -> back = 0; goto running
    :: back == 2 -> back = 0; goto get_up
    fi
  };

find_runnable:
  atomic {
    if
    :: run_next[p] -> run_next[p] = false; execute()
    :: !run_next[p] && stealable > 0 -> stealable--; execute()
    :: !run_next[p] && stealable == 0 && !spinning && 2 * spinning_count < NP - idle_count ->
      spinning_count++;
      spinning = true
    :: else
    fi;
    if
    :: !spinning -> goto lie_down
    :: else -> v = 0
    fi
  };

/* while_spinning */
steal:
  if
  :: goto lie_down        /* it held back */
  :: atomic { v < NP && stealable > 0 -> stealable--; execute() }
  :: atomic { v < NP && v != p && run_next[v] -> run_next[v] = false; execute() }
  :: atomic { v < NP -> v++; goto steal }
  :: atomic { v == NP -> goto lie_down }
  fi;

/* sleep_until_work. Drowsy before the P is given up. */
lie_down:
  atomic {
    v = 0;
    drowsy = true;
    drowsy_count++
  };
give_up_p:
  atomic { put_idle_p(p); idle_m_set = idle_m_set | bit(id) };
  atomic {
    if
    :: spinning -> spinning_count--; spinning = false
    :: else
    fi
  };

/* last_look. A queue that has one all the time is not seen empty (run_queue.h). */
look:
  atomic {
    v = 0;
    seen = 0;
    if
    :: stealable > 0 -> seen = 2
    :: else
    fi
  };
look_at_next:
  atomic {
    if
    :: seen < 2 && v < NP && stealable > 0 -> seen = 2
    :: seen < 2 && v < NP && stealable == 0 && run_next[v] -> seen = 1; v++; goto look_at_next
    :: seen < 2 && v < NP && stealable == 0 && !run_next[v] -> v++; goto look_at_next
    :: else
    fi;
    v = 0;
    if
    :: seen == 0 || (seen == 1 && !dozed) -> goto sleep
    :: else
    fi
  };
  take_p_back();

/* One that sees a run_next for the first time is drowsy, if it was not. */
sleep:
  atomic {
    dozed = false;
    if
    :: seen == 1 && !drowsy -> drowsy = true; drowsy_count++
    :: else
    fi
  };
end_sleep:
  atomic {
    if
    :: note[id] -> note[id] = false; goto handed
    :: drowsy
    fi
  };

/* The doze is over, unless it was handed a P in the last moment. It does not count as drowsy any
   more when it looks: who comes later wakes somebody. BUG=looks_before_doze_ends has it the other
   way round, BUG=no_look_after_doze does not look. */
  atomic {
    if
    :: !is_idle(id) -> goto await_note
    :: else
    fi
  };
#if BUG == looks_before_doze_ends
  atomic { seen = (stealable > 0 -> 2 : (in_run_next > 0 -> 1 : 0)) };
  atomic {
    drowsy = false;
    drowsy_count--;
    if
    :: seen == 0 -> goto end_sleep
    :: else -> dozed = true; goto look
    fi
  };
#else
  atomic {
    drowsy = false;
    drowsy_count--;
#if BUG == no_look_after_doze
    goto end_sleep
#else
    dozed = true;
    goto look
#endif
  };
#endif

await_note:
  atomic { note[id] -> note[id] = false };

/* Others left work to it while it was drowsy, or a spinner that lay down, and now it runs something
   else. BUG=drowsy_leaves_silently: nobody looks for that work. */
handed:
  atomic {
    p = handed_p[id];
    handed_p[id] = NONE;
    spinning = handed_spinning[id];
    handed_spinning[id] = false;
    back = 2;
    if
    :: !spinning && (drowsy || seen > 0) && BUG != drowsy_leaves_silently -> goto wake_p
    :: else -> back = 0
    fi
  };

/* The share in the count ends with the function. */
get_up:
up_again:
  atomic {
    seen = 0;
    dozed = false;
    if
    :: drowsy -> drowsy = false; drowsy_count--
    :: else
    fi;
    goto find_runnable
  };

/* The goroutine. */
running:
  if
  :: goto find_runnable
  :: atomic { hogs > 0 -> hogs--; goto end_hog }
  :: atomic {
       spawns > 0 ->
       spawns--;
       displaced = run_next[p];
       stealable = stealable + run_next[p];
       run_next[p] = true
     }
  fi;

/* push_next. BUG=left_to_nobody does not ask whether somebody is drowsy. */
push_next:
  atomic {
    back = 1;
    if
    :: idle_count == 0 -> displaced = false; goto woken_all
    :: else
    fi
  };
  atomic {
    if
    :: spinning_count > 0 -> displaced = false; goto woken_all
    :: else
    fi
  };
  atomic {
    if
#if BUG == left_to_nobody
    :: displaced -> displaced = false; goto wake_somebody
#else
    :: displaced || drowsy_count == 0 -> displaced = false; goto wake_somebody
#endif
    :: else -> goto woken_all
    fi
  };

end_hog:
  false
}

/* ---- Everybody else ---------------------------------------------------------------------------- */

/* A plain thread. */
proctype outsider() {
  byte s = 0;
  byte other = NONE;

end_outside:
  atomic { injects > 0 -> injects--; stealable++ };
  if
  :: idle_count == 0 -> goto end_outside
  :: else
  fi;
  wake_one(other);
woken_all:
  atomic { s = 0; goto end_outside }
}

/* hand_off_p: the last P is that of an M in a blocking call. Whoever gets it, with what is in its
   queue, does not look for work, but runs that. */
proctype monitor() {
  byte s = 0;
  byte mine = NP - 1;
  byte other = NONE;

end_watch:
  if
  :: atomic { idle_m_set != 0 -> stealable++; pop_sleeper() };
    wake_sleeper(mine, false);
    goto end_done
  :: true
  fi;
  if
  :: atomic { idle_count == 0 && spinning_count == 0 && idle_m_set != 0 -> spinning_count = 1; pop_sleeper() };
    wake_sleeper(mine, true);
    goto end_done
  :: atomic { idle_count > 0 || spinning_count > 0 -> put_idle_p(mine) }
  fi;
  if
  :: stealable == 0 || idle_count == 0 -> goto end_done
  :: else
  fi;
  wake_one(other);
woken_all:
end_done:
  false
}

/* timeout: nobody else can take a step. */
proctype judge() {
  timeout ->
  assert(stealable == 0 || idle_count == 0);
  assert(in_run_next == 0 || idle_count == 0);
  assert(spinning_count == 0);
  assert(drowsy_count == 0)
}

init {
  atomic {
    idle_p_set = (bit(NP - HANDOFFS) - 1) & ~bit(0);
    idle_count = NP - 1 - HANDOFFS;
    run M(0, 0);
    run M(1, NONE);
    idle_m_set = bit(1);
#if NM > 2
    run M(2, NONE);
    idle_m_set = idle_m_set | bit(2);
#endif
#if INJECTS > 0
    run outsider();
#endif
#if HANDOFFS > 0
    run monitor();
#endif
    run judge()
  }
}
