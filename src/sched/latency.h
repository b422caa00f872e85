// How long goroutines wait for their turn: from runnable to running.
//
// A clock is read at both ends, which takes as long as a switch. So a P that is in a hurry times
// few of its goroutines, and one that is not times all of them: the next one to time is so many
// away that readings of the clock are a small part of what the P does. One that stands for n others
// counts n times, so that the histogram is that of all, whatever the pace was.
//
// Where the stamp is. G has no room for it; but a goroutine that has not started has no use for its
// registers yet, and the record of a stack in use has a link that only free ones need.
#pragma once

#include <bit>
#include <cstdint>

#include "goroutine/g.h"
#include "os/clock.h"
#include "sched/counter.h"

namespace magpie::rt {

// Go's buckets: each power of two in four parts, from 64 ns on.
class latency_histogram {
 public:
  static constexpr int k_parts = 4;
  static constexpr int k_first_bits = 8;  // below 2^8 ns: four of 64 ns
  static constexpr int k_most_bits = 47;  // from 2^47 ns on: one bucket for all
  static constexpr int k_buckets = (k_most_bits - k_first_bits + 1) * k_parts + 1;

  // Owner only.
  void add(os::nanos time, std::uint64_t times) {
    counts_[bucket_of(time)].add(times);
    sum_.add(static_cast<std::uint64_t>(time) * times);
  }

  // Any thread.
  std::uint64_t count(int bucket) const { return counts_[bucket].read(); }
  std::uint64_t sum() const { return sum_.read(); }

  static int bucket_of(os::nanos time) {
    const auto t = static_cast<std::uint64_t>(time);
    const auto bits = static_cast<int>(std::bit_width(t));
    if (bits <= k_first_bits) return static_cast<int>(t >> (k_first_bits - 2));
    if (bits > k_most_bits) return k_buckets - 1;
    return (bits - k_first_bits) * k_parts + static_cast<int>((t >> (bits - 3)) & (k_parts - 1));
  }
  // The first time that is in the bucket.
  static os::nanos begin_of(int bucket) {
    const int power = bucket / k_parts;
    const os::nanos part = bucket % k_parts;
    if (power == 0) return part << (k_first_bits - 2);
    return (k_parts + part) << (k_first_bits + power - 3);
  }

 private:
  counter counts_[k_buckets];
  counter sum_;  // nanoseconds
};

// Decides whom to time.
class latency_sampler {
 public:
  // `g` has just become runnable and nobody else can find it yet. Owner of the P only.
  void note_runnable(G& g) {
    if (--left_ == 0) [[unlikely]]
      choose(g);
  }
  // The same without a P, where all takes long.
  static void time(G& g) { stamp(g, os::ticks(), 0); }

  // `g` begins its turn.
  static void note_running(G& g, latency_histogram& to) {
    if (g.timed != 0) [[unlikely]]
      finish(g, to);
  }

 private:
  static constexpr std::uint8_t k_most_doublings = 10;
  // Two that are timed should be at least so far apart: 20 us.
  static constexpr std::uint64_t k_most_per_second = 50'000;

  void choose(G& g);
  static void stamp(G& g, std::uint64_t now, std::uint8_t doublings);
  static void finish(G& g, latency_histogram& to);

  std::uint32_t left_ = 1;
  std::uint8_t doublings_ = 0;  // one of 2^n is timed, on average
  std::uint64_t last_ = 0;      // ticks
};

}  // namespace magpie::rt
