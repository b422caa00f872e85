#include "time/func_timer.h"

#include "sched/defaults.h"

namespace magpie::rt {

constexpr task_type func_timer::k_task{run, nullptr};

func_timer::func_timer(std::unique_ptr<detail::timed_function> f, const void* set_by)
    : alarm(
          k_task, [](alarm&) { return true; }, set_by, on_end_of_runtime),
      function_(std::move(f)) {}

func_timer& func_timer::start(duration d, std::unique_ptr<detail::timed_function> f,
                              const void* set_by) {
  auto* const self = new func_timer(std::move(f), set_by);
  self->reset(d);
  return *self;
}

bool func_timer::stop() {
  const entry inside;
  const object_guard held(lock_);
  if (!unset()) return false;
  shares_.fetch_sub(1, relaxed);  // the heap's; relaxed: the caller has one
  return true;
}

bool func_timer::reset(duration d) {
  const os::nanos at = deadline_after(d);
  const entry inside;
  const destination to = find_destination(nullptr, inside.m());
  const object_guard held(lock_);
  const bool prevented = unset();
  if (!prevented) shares_.fetch_add(1, relaxed);  // for the heap; relaxed: the caller has one
  set(to.home, to.m, at);
  return prevented;
}

void func_timer::drop() noexcept {
  // acq_rel: the last one sees what all others did before it destroys the function.
  if (shares_.fetch_sub(1, acq_rel) == 1) delete this;
}

void func_timer::on_end_of_runtime(timer& t) { static_cast<func_timer&>(t).drop(); }

// The goroutine's share goes with it, also when the function calls this_goroutine::exit().
void func_timer::run(void* closure) {
  auto& self = static_cast<func_timer&>(from_closure(closure));
  struct share {
    func_timer& of;
    ~share() { of.drop(); }
  } mine{self};
  self.function_->call();
}

}  // namespace magpie::rt
