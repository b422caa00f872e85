/* How an M that sleeps in the poller, and one that sleeps until a timer, hand over: the protocol of
 * src/sched/polling.cpp and timers.cpp, for the model checker SPIN. protocol.pml has the rest.
 *
 * THE TENSION. Events of the kernel and timers are work that no submitter brings: somebody has to
 * watch for them, and one is enough. So of the Ms that sleep one sleeps in the poller (the watcher)
 * and one until the earliest timer (the timekeeper; it may be the same). But both are Ms like the
 * others, and are woken when there is other work. An event that comes just then, a timer that is
 * earlier than the one waited for, a wake-up that reaches the wrong one: each could wait beside an
 * idle P until something else happens.
 *
 * WHAT IS PROVEN. For at most EVENTS events of the kernel, TIMERS timers set by goroutines or from
 * outside, INJECTS submissions from outside, HANDOFFS Ps that are taken from blocking calls and HOGS goroutines that never end, in every
 * interleaving on NP Ps and NM Ms, and whenever the poller is started (STARTS=1; otherwise it is
 * from the beginning): when nobody can take a step, and a P is idle, there is no goroutine to run,
 * no event that was not collected and no timer that is due. Nobody is counted as spinning then.
 *
 * WHAT IS LEFT OUT. All run queues are one number. The watcher is always in the poller: one that
 * waits beside it, because others ask, looks again by itself. A P that keeps_to_itself(), the
 * monitor, drowsy Ms and the end of threads, which only wake up more often. Memory is sequentially
 * consistent. One timer for each point of time; that one fires late is not seen, only that it never
 * does.
 *
 * IN THE C++ the same names are found in idle.cpp (wake_p, wake_one and wake_sleeper, give_up_p,
 * last_look, take_p_back, sleep_until_work, wait_for_p), polling.cpp (become_watcher, watch_until,
 * ask_poller, deliver, start_poller) and timers.cpp (become_timekeeper, announce_timer).
 *
 * SWITCHES for spin -D: NP NM EVENTS TIMERS INJECTS HANDOFFS HOGS STARTS; BUG=name. See tools/check_model.
 */

#ifndef NP
#define NP 2
#endif
#ifndef NM
#define NM 3
#endif
#ifndef EVENTS
#define EVENTS 0
#endif
#ifndef TIMERS
#define TIMERS 0
#endif
#ifndef INJECTS
#define INJECTS 0
#endif
#ifndef HOGS
#define HOGS 0
#endif
#ifndef STARTS
#define STARTS 0
#endif
#ifndef HANDOFFS
#define HANDOFFS 0
#endif

/* The bugs, each explained where it is. */
#define wake_without_interrupt       1
#define watcher_leaves_silently      2
#define two_watchers                 3
#define start_without_wake           4
#define timekeeper_leaves_silently   6
#define watches_before_idle          10
#define too_late_for_office          11
#ifndef BUG
#define BUG 0
#endif

#define NONE 255
#define bit(i) (1 << (i))
#define LAST 2            /* points of time; timers are set to 1 .. LAST */

byte work;                /* goroutines in all queues */
byte idle_count = NP - 1 - HANDOFFS; /* of Ps; changed under the lock, read by anybody */
byte idle_m_set;          /* under the lock */
byte spinning_count;
bool handed[NM];          /* a P, by whoever took the M off the list */
bool handed_spinning[NM];
bool note[NM];            /* it is woken */

byte pending;             /* what the kernel would tell */
bool started = !STARTS;
bool alarm;               /* the poller's eventfd */
byte watcher = NONE;      /* under the lock */

byte now;
byte timers;              /* a bit for each point of time */
byte timekeeper = NONE;   /* under the lock */
byte watched_until = NONE;

byte events = EVENTS, to_set = TIMERS, injects = INJECTS, hogs = HOGS, starts = STARTS, handoffs = HANDOFFS;

#define earliest (timers & bit(1) -> 1 : (timers & bit(2) -> 2 : NONE))
#define nobody_watches_now \
  (idle_count > 0 && (started && watcher == NONE || earliest < watched_until))
#define is_idle(i) (idle_m_set & bit(i))

/* ---- idle.cpp: waking ------------------------------------------------------------------------ */

/* Any of them; in the C++ the watcher is the last to be taken. Under the lock. */
inline pop_sleeper(s) {
  if
  :: is_idle(0) -> s = 0
  :: is_idle(1) -> s = 1
#if NM > 2
  :: is_idle(2) -> s = 2
#endif
  fi;
  idle_m_set = idle_m_set & ~bit(s);
  watches = (watcher == s)
}

inline wake_sleeper(s, spins) {
  atomic {
    handed[s] = true;
    handed_spinning[s] = spins;
#if BUG != wake_without_interrupt
    alarm = alarm || watches;
#endif
    watches = false
  };
  atomic { note[s] = true; s = 0 }
}

/* What was published before is seen by whoever looks after it has given up its P; and whoever has
   given one up before is seen here. The sleeper is told in three steps. The note comes last: one
   that finds the note unset but is off the list waits for it.
   BUG=wake_without_interrupt: one in the poller does not see its note. */
inline wake_one(s) {
  atomic {
    if
    :: spinning_count == 0 -> spinning_count = 1
    :: else -> goto woken_all
    fi
  };
  atomic {   /* under the lock */
    if
    :: idle_count == 0 -> spinning_count--; goto woken_all
    :: else -> idle_count--
    fi;
    pop_sleeper(s)
  };
  wake_sleeper(s, true)
}

/* ---- What an M does --------------------------------------------------------------------------- */

inline take_p_back() {
  atomic {   /* under the lock */
    if
    :: is_idle(id) && idle_count > 0 ->
      idle_m_set = idle_m_set & ~bit(id);
      idle_count--;
      spinning_count++;
      spinning = true;
      has_p = true
    :: else
    fi
  }
}

proctype M(byte id) {
  bool has_p = (id == 0);
  bool spinning = false;
  bool watches = false;   /* see wake_one */
  byte s = 0;             /* as well */
  bool seen = false, kept = false, watching = false, is_handed = false;
  byte until = NONE;
  byte batch = 0;
  byte back = 0;          /* where to go on after wake_p; a call, as it were */

  if
  :: id != 0 -> goto look
  :: else -> goto running
  fi;

/* wake_p, with what comes after it in `back`: 0 find_runnable, 1 running, 2 look. */
wake_p:
  if
  :: idle_count == 0 -> goto woken_all
  :: else
  fi;
  wake_one(s);
woken_all:
  atomic {
    s = 0;
    watches = false;
    if
    :: back == 0 -> goto find_runnable
    :: back == 1 -> back = 0; goto running
    :: back == 2 -> back = 0; goto look
    fi
  };

/* from_poller, run_timers_of_all, from_global_queue: each is one step. */
find_runnable:
#if TIMERS > 0
  atomic {
    if
    :: earliest <= now -> timers = timers & ~bit(earliest); work++; goto wake_p
    :: else
    fi
  };
#endif
  atomic {
    if
    :: started && pending > 0 -> work = work + pending; pending = 0; goto wake_p
    :: else
    fi
  };
  atomic {
    if
    :: work > 0 && spinning -> work--; spinning_count--; spinning = false; back = 1; goto wake_p
    :: work > 0 && !spinning -> work--; goto running
    :: work == 0 && !spinning && 2 * spinning_count < NP - idle_count ->
      spinning_count++;
      spinning = true;
      goto find_runnable
    :: else -> goto give_up_p
    fi
  };

/* The goroutine. */
running:
  if
  :: goto find_runnable
  :: atomic { hogs > 0 -> hogs-- ; goto end_hog }
  :: atomic { to_set > 0 && !(timers & bit(1)) -> to_set--; timers = timers | bit(1); until = 1 }
  :: atomic { to_set > 0 && !(timers & bit(2)) -> to_set--; timers = timers | bit(2); until = 2 }
  fi;

announce_timer:
  atomic {
    if
    :: idle_count == 0 -> until = NONE; goto running
    :: else
    fi
  };
  atomic {
    if
    :: spinning_count == 0 && until < watched_until -> until = NONE; back = 1; goto wake_p
    :: else -> until = NONE; goto running
    fi
  };

give_up_p:
  atomic {   /* under the lock */
    if
    :: work > 0 -> goto find_runnable
    :: else -> has_p = false; idle_count++; idle_m_set = idle_m_set | bit(id)
    fi
  };
  atomic {
    if
    :: spinning -> spinning_count--; spinning = false
    :: else
    fi
  };

/* sleep_until_work: last_look, then the two offices, then sleep. */
look:
  atomic {
    seen = (work > 0);
    if
    :: !seen -> goto become_timekeeper
    :: else
    fi
  };
  take_p_back();
  atomic {
    if
    :: has_p -> seen = false; goto find_runnable
    :: else
    fi
  };

/* The heaps are looked at without the lock, and after the P was given up. */
become_timekeeper:
#if TIMERS > 0
  until = earliest;
  atomic {   /* under the lock */
    if
    :: until != NONE && is_idle(id) && idle_count > 0 && until < watched_until ->
      timekeeper = id;
      watched_until = until
    :: else -> until = NONE
    fi
  };
#endif

#if BUG == two_watchers
#define nobody_watches true
#else
#define nobody_watches (watcher == NONE)
#endif
#if BUG == watches_before_idle
#define is_on_the_list true
#else
#define is_on_the_list is_idle(id)
#endif
/* BUG=two_watchers: there is one alarm, and the other one may switch it off.
   BUG=watches_before_idle: it was handed a P already, and the alarm was not for it. */
become_watcher:
  atomic {   /* under the lock */
    if
    :: started && idle_count > 0 && nobody_watches && is_on_the_list ->
      watcher = id;
      watching = true
    :: else
    fi;
    if
    :: watching -> goto in_poller
    :: else -> goto wait_for_p
    fi
  };

/* Whatever has happened before is found, and what happens later ends the wait. */
in_poller:
end_in_poller:
  atomic {
    alarm || pending > 0 || until <= now ->
    batch = pending;
    pending = 0;
    alarm = false
  };

/* From the poller: only a look at the note. Otherwise until the note or the timer. */
wait_for_p:
end_wait_for_p:
  atomic {
    note[id] || watching || until <= now ->
    is_handed = note[id];
    note[id] = false
  };
  atomic {   /* under the lock: whoever is off the list is woken, sooner or later */
    if
    :: !is_handed && !is_idle(id) -> goto await_note
    :: else -> goto resign
    fi
  };
await_note:
  atomic { note[id] -> note[id] = false; is_handed = true };

/* Three sections of their own in the C++; nobody relies on what is in between. */
resign:
  atomic {
    if
    :: until != NONE && timekeeper == id -> timekeeper = NONE; watched_until = NONE; kept = true
    :: else
    fi;
    if
    :: watching -> watcher = NONE
    :: else
    fi;
    if
    :: is_handed ->
      assert(handed[id] && !has_p);
      handed[id] = false;
      has_p = true;
      spinning = handed_spinning[id];
      handed_spinning[id] = false
    :: else
    fi;
    if
    :: is_handed -> goto with_handed_p
    :: !is_handed && batch > 0 -> goto with_events
    :: !is_handed && batch == 0 && until <= now -> goto with_timer
    :: else -> seen = false; kept = false; watching = false; until = NONE; goto look
    fi
  };

#define LEAVES_SILENTLY \
  (BUG == too_late_for_office || BUG == watcher_leaves_silently || BUG == timekeeper_leaves_silently)
/* It was woken for something else, and leaves its offices behind.
   BUG=watcher_leaves_silently and BUG=timekeeper_leaves_silently wake nobody instead. */
with_handed_p:
  atomic {
    work = work + batch;
    is_handed = false;
    /* Others fell asleep without an office because all Ps were held; and before this one could
       take it, it was handed a P. */
    seen = seen || batch > 0 || (nobody_watches_now && !LEAVES_SILENTLY) || (watching && BUG != watcher_leaves_silently) ||
           (kept && BUG != timekeeper_leaves_silently);
    kept = false;
    watching = false;
    until = NONE;
    batch = 0;
    if
    :: seen && !spinning -> seen = false; goto wake_p
    :: else -> seen = false; goto find_runnable
    fi
  };

/* Without a P they go where whoever holds one finds them. */
with_events:
  take_p_back();
  atomic {
    work = work + batch;
    batch = 0;
    seen = false;
    kept = false;
    watching = false;
    until = NONE;
    back = (has_p -> 0 : 2);
    goto wake_p
  };

with_timer:
  take_p_back();
  atomic {
    seen = false;
    kept = false;
    watching = false;
    until = NONE;
    if
    :: has_p -> goto find_runnable
    :: else -> goto look
    fi
  };

end_hog:
  false
}

/* ---- Everybody else --------------------------------------------------------------------------- */

proctype kernel() {
end_events:
  do
  :: atomic { started && events > 0 -> events--; pending++ }
  od
}

proctype clock() {
end_time:
  do
  :: atomic { now < LAST -> now++ }
  od
}

/* A plain thread. BUG=start_without_wake: those who sleep already do not watch. */
proctype outsider() {
  byte s = 0;
  bool watches = false;
  byte when = NONE;

end_outside:
  if
  :: atomic { injects > 0 -> injects--; work++ }
  :: atomic { starts > 0 -> starts--; started = true }
#if BUG == start_without_wake
     goto end_outside
#endif
  :: atomic { to_set > 0 && !(timers & bit(1)) -> to_set--; timers = timers | bit(1); when = 1 }
  :: atomic { to_set > 0 && !(timers & bit(2)) -> to_set--; timers = timers | bit(2); when = 2 }
  fi;
  atomic {
    if
    :: idle_count == 0 -> when = NONE; goto end_outside
    :: else
    fi
  };
  atomic {
    if
    :: when != NONE && when >= watched_until -> when = NONE; goto end_outside
    :: else -> when = NONE
    fi
  };
  wake_one(s);
woken_all:
  atomic { s = 0; watches = false; goto end_outside }
}

/* hand_off_p: the P of an M in a blocking call, with a goroutine in its queue. Whoever gets it does
   not look for work, but runs that. */
proctype monitor() {
  byte s = 0;
  bool watches = false;

end_watch:
  atomic {
    handoffs > 0 && idle_m_set != 0 ->
    handoffs--;
    work++;
    pop_sleeper(s)
  };
  wake_sleeper(s, false);
  goto end_watch
}

/* timeout: nobody else can take a step, so all time has passed. */
proctype judge() {
  timeout ->
  assert(work == 0 || idle_count == 0);
  assert(pending == 0 || idle_count == 0);
  assert(earliest > now || idle_count == 0);
  assert(spinning_count == 0)
}

init {
  atomic {
    run M(0);
    run M(1);
    idle_m_set = bit(1);
#if NM > 2
    run M(2);
    idle_m_set = idle_m_set | bit(2);
#endif
#if EVENTS > 0
    run kernel();
#endif
#if TIMERS > 0
    run clock();
#endif
#if INJECTS + STARTS > 0
    run outsider();
#endif
#if HANDOFFS > 0
    run monitor();
#endif
    run judge()
  }
}
