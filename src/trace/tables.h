// The tables of one generation: which stacks and which texts its events speak of.
//
// Whoever writes an event looks its stack up here, inside the gate: no lock is taken, nothing is
// allocated. An entry is known by a hash of 64 bits, which is taken for the thing
// itself: among a million stacks two that share one are less likely than a bit that flips. Names
// are found for the addresses much later, by the recorder.
//
// When a table is full the answer is 0: the event goes without a stack or with an empty text, which
// readers allow everywhere.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "base/atomic.h"

namespace magpie::rt::trace {

// Texts that every generation has, with fixed ids: why goroutines stop.
enum class text : std::uint8_t {
  none,
  forever,
  network,
  select,
  cond_wait,
  sync,
  chan_send,
  chan_receive,
  sleep,
  preempted,
  yielded,
  unspecified,
  count_,
};
std::string_view fixed_text(text);

namespace inner {

// Hashes to ids and to places in an arena of `Item`s, for any number of writers at a time.
template <class Item, std::size_t Slots, std::size_t Items>
class intern_table {
 public:
  // `fill(Item* place)` writes `count` items. 0: no room. Waits for one who is just adding the
  // same, which takes him some nanoseconds.
  template <class Fill>
  std::uint32_t intern(std::uint64_t hash, std::size_t count, Fill fill) {
    if (hash == 0) hash = 1;
    for (std::size_t i = hash % Slots, tries = 0; tries < 32; i = (i + 1) % Slots, ++tries) {
      entry& e = entries_[i];
      std::uint64_t found = e.hash.load(relaxed);  // relaxed: `id` says when the rest is there
      // relaxed: as above.
      if (found == 0 && e.hash.compare_exchange_strong(found, hash, relaxed, relaxed)) {
        return add(e, count, fill);
      }
      if (found == hash) return id_of(e);
    }
    return 0;
  }
  bool is_half_full() const { return ids_.load(relaxed) > Slots / 2; }  // relaxed: a number

  // The recorder, when nobody writes to this generation any more.
  template <class Visit>  // (id, span<const Item>)
  void visit(Visit v) const {
    const std::uint32_t made = count();
    for (std::uint32_t id = 1; id <= made; ++id) {
      const place& p = places_[id];
      v(id, std::span<const Item>(items_ + p.start, p.count));
    }
  }
  void clear() {
    for (entry& e : entries_) {
      if (e.hash.load(relaxed) == 0) continue;  // relaxed: nobody else is here
      e.hash.store(0, relaxed);                 // as above
      e.id.store(0, relaxed);                   // as above
    }
    ids_.store(0, relaxed);   // as above
    used_.store(0, relaxed);  // as above
  }

 private:
  struct entry {
    atomic<std::uint64_t> hash{0};
    atomic<std::uint32_t> id{0};
  };
  struct place {
    std::uint32_t start, count;
  };
  static constexpr std::uint32_t k_no_room = ~std::uint32_t{0};

  static std::uint32_t id_of(const entry& e) {
    std::uint32_t id;
    while ((id = e.id.load(acquire)) == 0) cpu_relax();  // pairs with the releases in add()
    return id != k_no_room ? id : 0;
  }

  std::uint32_t count() const {
    const std::uint32_t made = ids_.load(relaxed);  // relaxed: as in clear()
    return made < Slots - 1 ? made : static_cast<std::uint32_t>(Slots - 1);
  }

  template <class Fill>
  std::uint32_t add(entry& e, std::size_t count, Fill& fill) {
    // relaxed: numbers to be drawn.
    const std::size_t start = used_.fetch_add(count, relaxed);
    // As above.
    const std::uint32_t id = start + count <= Items ? ids_.fetch_add(1, relaxed) + 1 : k_no_room;
    if (id >= Slots) {
      e.id.store(k_no_room, release);  // pairs with id_of()
      return 0;
    }
    fill(items_ + start);
    places_[id] = {static_cast<std::uint32_t>(start), static_cast<std::uint32_t>(count)};
    e.id.store(id, release);  // pairs with id_of()
    return id;
  }

  entry entries_[Slots];
  place places_[Slots];
  Item items_[Items];
  atomic<std::uint32_t> ids_{0};
  atomic<std::size_t> used_{0};
};

}  // namespace inner

// An address in a stack, or a text that stands for a frame: the name of a goroutine.
class frame_word {
 public:
  static std::uint64_t of_text(std::uint32_t id) { return k_text | id; }
  static bool is_text(std::uint64_t word) { return (word & k_text) != 0; }
  static std::uint32_t text_id(std::uint64_t word) { return static_cast<std::uint32_t>(word); }

 private:
  static constexpr std::uint64_t k_text = std::uint64_t{1} << 63;
};

class tables {
 public:
  // Return addresses, innermost first.
  std::uint32_t stack(std::span<const std::uintptr_t> frames);
  std::uint32_t stack_named(std::string_view name);
  // Cut to what readers take.
  std::uint64_t text_id(std::string_view);
  // For texts of which there may be any number: room is left for the others.
  std::uint64_t log_text_id(std::string_view chars) {
    return texts_.is_half_full() ? 0 : text_id(chars);
  }

  template <class Visit>
  void visit_stacks(Visit v) const {
    stacks_.visit(v);
  }
  template <class Visit>  // (id, string_view), of those that are not fixed
  void visit_texts(Visit v) const {
    texts_.visit([&](std::uint32_t id, std::span<const char> chars) {
      v(k_last_fixed + id, std::string_view(chars.data(), chars.size()));
    });
  }
  void clear();

  // In memory of its own, which takes no more than what is used.
  static tables* make();

 private:
  // Before the first one that is not fixed.
  static constexpr std::uint64_t k_last_fixed = static_cast<std::uint64_t>(text::count_) - 1;

  inner::intern_table<std::uint64_t, 1 << 14, 1 << 18> stacks_;
  inner::intern_table<char, 1 << 15, 1 << 22> texts_;
};

}  // namespace magpie::rt::trace
