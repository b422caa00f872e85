// A place where a number of goroutines or threads meet, again and again; as std::barrier.
//
//   magpie::barrier step(4, [] noexcept { swap_buffers(); });
//   ... step.arrive_and_wait();      in four goroutines
//
// The last who arrives calls the completion function; then everybody goes on, and the next phase
// begins. It may be destroyed as soon as every wait has returned, although others are still on
// their way out of arrive(). More arrivals than expected throw magpie::misuse.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>

#include <magpie/detail/waiting.h>
#include <magpie/export.h>

namespace magpie {

namespace detail {

struct no_completion {
  void operator()() const noexcept {}
};

// All but the completion function. Logic in src/sync/barrier.cpp.
class MAGPIE_API barrier_core {
 public:
  explicit barrier_core(std::ptrdiff_t expected);

  // True: this was the last one, and the caller has to complete the phase.
  bool arrive(std::ptrdiff_t count, std::ptrdiff_t leave_for_good, std::uint64_t& phase);
  void begin_next_phase();
  void wait(std::uint64_t phase);

 private:
  lock_word lock_;
  std::ptrdiff_t expected_;  // in the next phase
  std::ptrdiff_t missing_;   // in this one
  std::uint64_t phase_ = 0;
  wait_list waiting_;
};

}  // namespace detail

template <class CompletionFunction = detail::no_completion>
class barrier {
  static_assert(std::is_nothrow_invocable_v<CompletionFunction&>,
                "the completion function must be noexcept");

 public:
  // Says which phase was arrived in.
  class arrival_token {
   public:
    arrival_token(arrival_token&&) noexcept = default;
    arrival_token& operator=(arrival_token&&) noexcept = default;

   private:
    friend class barrier;
    explicit arrival_token(std::uint64_t phase) : phase_(phase) {}
    std::uint64_t phase_;
  };

  // Not negative, or misuse is thrown.
  explicit barrier(std::ptrdiff_t expected, CompletionFunction f = CompletionFunction())
      : core_(expected), complete_(std::move(f)) {}
  barrier(const barrier&) = delete;
  barrier& operator=(const barrier&) = delete;

  static constexpr std::ptrdiff_t max() noexcept { return PTRDIFF_MAX; }

  [[nodiscard]] arrival_token arrive(std::ptrdiff_t count = 1) {
    return arrival_token(come(count, 0));
  }
  void wait(arrival_token&& arrival) { core_.wait(arrival.phase_); }
  void arrive_and_wait() { core_.wait(come(1, 0)); }
  // Arrives, and is not expected in later phases.
  void arrive_and_drop() { (void)come(1, 1); }

 private:
  std::uint64_t come(std::ptrdiff_t count, std::ptrdiff_t leave_for_good) {
    std::uint64_t phase;
    if (core_.arrive(count, leave_for_good, phase)) {
      complete_();
      core_.begin_next_phase();
    }
    return phase;
  }

  detail::barrier_core core_;
  CompletionFunction complete_;
};

}  // namespace magpie
