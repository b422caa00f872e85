// A timer that starts a goroutine: what after_func() and the deadlines of contexts stand on.
#pragma once

#include "time/timed.h"

namespace magpie::rt {

struct alarm : timed {
  // The goroutine runs task.run(closure), where the closure is a pointer to the alarm; see
  // from_closure(). `claim` is called before, inside the gate: false, there is nobody any more to
  // start it for. With true it must see to it that the alarm stays until the goroutine has ended.
  using claim_function = bool (*)(alarm&);

  alarm(const task_type& t, claim_function c, const void* set_by, timer::farewell f = nullptr)
      : timed(on_fire, on_call, f), task(t), claim(c), site(set_by) {}

  static alarm& from_closure(void* closure);

  // set() and unset() for an owner outside of the gate. In the caller's runtime.
  void start(time_point);
  bool stop();

  const task_type& task;
  const claim_function claim;
  const void* const site;  // in the program, for dumps

 private:
  static os::nanos on_fire(timer&, os::nanos now, harvest&);
  static void on_call(M*, timed_call&);

  scheduler* where_ = nullptr;  // of the one aloft
};

}  // namespace magpie::rt
