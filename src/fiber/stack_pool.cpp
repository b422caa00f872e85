// Layout of a slab, addresses rising to the right:
//
//   | chunk 0                                          | chunk 1 ... | not carved yet: PROT_NONE |
//   | guard | stack 0 | guard | stack 1 |   ... | rest |
//
// Slots lie a page further apart than their size, and the page is one more of the guard. At a
// power of two the tops of all stacks, which is all that most goroutines use, would fall into a few
// sets of the processor's TLB and keep throwing each other out: a thousand goroutines that yield
// took a quarter longer.
//
// One call makes the pages of some chunks usable, and carving guards the slots of one with another,
// so a slab is never more than two mappings, however many stacks it holds. Guards that are mappings
// (old kernels, locked memory) break that: two mappings per stack, of which a process has 65530.
//
// A chunk keeps its free slots in a bit mask. All free: the whole chunk can be made blank again,
// guards included, which also returns its page tables (a guard pins them).

#include "fiber/stack_pool.h"

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <cstring>
#include <new>
#include <span>
#include <utility>

#include "base/atomic.h"
#include "base/check.h"
#include "os/environment.h"

namespace magpie::rt {

namespace {

constexpr std::size_t k_page_table_span = 2 << 20;  // what one page of page-table entries maps
constexpr std::size_t k_first_slab = std::size_t{64} << 20;
constexpr std::size_t k_largest_slab = std::size_t{16} << 30;

std::size_t slot_pitch(size_class c) { return k_slot_sizes[c] + os::page_size(); }

// Enough slots that carving is rare, few enough that a small program reserves little. No two chunks
// share a page of page-table entries, so that it goes with the chunk.
std::size_t chunk_size(size_class c) {
  constexpr std::size_t k_usual = 8 << 20;
  const std::size_t needed = std::max(k_usual, slot_pitch(c));
  return (needed + k_page_table_span - 1) / k_page_table_span * k_page_table_span;
}

constexpr std::size_t k_most_slots = 64;  // of a chunk: bits of a word
std::size_t slots_per_chunk(size_class c) {
  return std::min(chunk_size(c) / slot_pitch(c), k_most_slots);
}

// As many whole chunks as that, but at least one.
std::size_t whole_chunks(std::size_t size, size_class c) {
  return std::max<std::size_t>(size / chunk_size(c), 1) * chunk_size(c);
}

std::uint64_t all_slots(size_class c) {
  return ~std::uint64_t{0} >> (k_most_slots - slots_per_chunk(c));
}

// The slabs of all pools, for find_stack(). Fixed in size because signal handlers read it while
// it changes. `start` is what makes an entry valid: written last, cleared first.
struct slab_entry {
  atomic<bool> claimed{false};
  atomic<char*> start{nullptr};
  atomic<std::size_t> size{0};
  atomic<rt::size_class> size_class{0};
  atomic<stack*> stacks{nullptr};
};
constexpr std::size_t k_most_slabs = 4096;
slab_entry g_slabs[k_most_slabs];
atomic<std::size_t> g_slabs_used{0};  // entries ever used: where a search may end

}  // namespace

struct stack_chunk {
  char* start;
  stack* stacks;                  // the records of its slots
  list_links<stack_chunk> links;  // in its shelf's `open` or `blank`
  stack_slab* part_of;
  std::uint64_t free = 0;  // slots in the pool's hands
  std::uint64_t warm = 0;  // of those: slots that may hold memory
  rt::size_class size_class;
  guard_kind guards;
};

struct stack_slab {
  stack_slab* next = nullptr;
  char* start;
  std::size_t size;
  std::size_t usable = 0;   // chunks whose pages are
  std::size_t carved = 0;   // of those: chunks handed out so far
  std::size_t guarded = 0;  // of those: chunks that are not blank
  stack_chunk* chunks;
  stack* stacks;
  slab_entry* entry;
  os::memory_range records;
};

struct stack_pool::shelf {
  using chunk_list = intrusive_list<stack_chunk, &stack_chunk::links>;

  rt::size_class size_class;
  chunk_list open;              // chunks with a free slot, the last used first
  chunk_list blank;             // usable pages without guards or memory
  stack_slab* slabs = nullptr;  // newest first; only that one has uncarved chunks
  std::size_t next_slab_size;
  std::size_t free = 0;  // slots, of all open chunks
  bool has_carved = false;
};

guard_kind default_guard_kind() {
  const char* const wish = os::environment("MAGPIE_STACK_GUARDS");
  if (wish != nullptr && *wish != '\0' && std::strcmp(wish, "auto") != 0) {
    if (std::strcmp(wish, "mprotect") == 0) return guard_kind::mappings;
    if (std::strcmp(wish, "madvise") == 0) {
      if (os::guard_markers_work()) return guard_kind::markers;
      fatal("MAGPIE_STACK_GUARDS=madvise: no MADV_GUARD_INSTALL here (Linux 6.13 and later)");
    }
    fatal("MAGPIE_STACK_GUARDS=", wish, ": expected auto, madvise or mprotect");
  }
  return os::guard_markers_work() ? guard_kind::markers : guard_kind::mappings;
}

stack_pool::stack_pool(guard_kind guards) : guards_(guards), mapping_limit_(os::mapping_limit()) {
  const auto memory = os::allocate_records(k_size_classes * sizeof(shelf));
  if (!memory) fatal("no memory for the stack pool: ", os::error_name(memory.error()));
  shelves_ = static_cast<shelf*>(*memory);
  for (std::size_t c = 0; c < k_size_classes; ++c) {
    shelf* const made = new (&shelves_[c]) shelf;
    made->size_class = static_cast<rt::size_class>(c);
    made->next_slab_size = whole_chunks(k_first_slab, made->size_class);
  }
}

stack_pool::~stack_pool() {
  MAGPIE_CHECK(stats_.in_use == 0, "a stack pool destroyed while stacks are out");
  for (std::size_t c = 0; c < k_size_classes; ++c) {
    while (stack_slab* const s = shelves_[c].slabs) {
      shelves_[c].slabs = s->next;
      for (std::size_t i = 0; i < s->carved * slots_per_chunk(static_cast<size_class>(c)); ++i) {
        if (s->stacks[i].high != nullptr) sanitizer::stack_unmade(s->stacks[i].note);
      }
      s->entry->start.store(nullptr, release);  // pairs with the acquire in find_stack
      s->entry->claimed.store(false, release);  // pairs with the acquire in claim_slab_entry
      (void)os::unmap({s->start, s->size});
      (void)os::unmap(s->records);  // the slab's own record lies in there
    }
  }
  (void)os::unmap({shelves_, k_size_classes * sizeof(shelf)});
}

std::size_t stack_pool::take(size_class c, std::size_t wanted, stack** out) {
  MAGPIE_CHECK(c < k_size_classes, "no such stack size");
  const os::lock_guard hold(lock_);
  shelf& from = shelves_[c];
  std::size_t taken = 0;
  while (taken < wanted) {
    stack_chunk* const open = from.open.front();
    if (open == nullptr) {
      // A new chunk is for somebody who has nothing; a partly filled order is good enough.
      if (taken != 0 || !stock_locked(from)) break;
      continue;
    }
    const std::uint64_t candidates = open->warm != 0 ? open->warm : open->free;
    const auto slot = static_cast<unsigned>(std::countr_zero(candidates));
    open->free &= ~(std::uint64_t{1} << slot);
    open->warm &= ~(std::uint64_t{1} << slot);
    if (open->free == 0) from.open.remove(open);
    out[taken++] = &open->stacks[slot];
  }
  from.free -= taken;
  stats_.free -= taken;
  stats_.in_use += taken;
  return taken;
}

void stack_pool::give(stack* const* stacks, std::size_t count) {
  const os::lock_guard hold(lock_);
  for (std::size_t i = 0; i < count; ++i) {
    stack* const s = stacks[i];
    shelf& to = shelves_[s->size_class];
    stack_chunk* const home = s->home;
    const auto bit = std::uint64_t{1} << (s - home->stacks);
    MAGPIE_CHECK((home->free & bit) == 0, "a stack given back twice");
    s->occupant = nullptr;
    if (home->free == 0) to.open.push_front(home);
    home->free |= bit;
    home->warm |= bit;
    ++to.free;
  }
  stats_.free += count;
  stats_.in_use -= count;
}

// Makes at least one slot of the shelf free. The chunk is on no list while the kernel works on it,
// which takes some fifty microseconds: nobody else can reach it, so the lock is not needed, and
// two Ps that want stacks get them side by side.
bool stack_pool::stock_locked(shelf& to) {
  stack_chunk* const next = take_blank_locked(to);
  if (next == nullptr) return false;
  ++next->part_of->guarded;
  // The second chunk, and there will be more: a burst of goroutines that all need a stack.
  const bool in_a_burst = std::exchange(to.has_carved, true);
  lock_.release();
  const bool carved = carve(*next);
  if (carved && in_a_burst) warm_up(*next);
  lock_.acquire();
  if (!carved) {
    --next->part_of->guarded;
    to.blank.push_front(next);
    return false;
  }
  to.open.push_front(next);
  to.free += slots_per_chunk(to.size_class);
  stats_.free += slots_per_chunk(to.size_class);
  return true;
}

// A chunk of usable pages: one that was used before, else from the rest of the newest slab, else
// from a new slab.
stack_chunk* stack_pool::take_blank_locked(shelf& from) {
  if (stack_chunk* const used_before = from.blank.pop_front()) return used_before;
  const std::size_t size = chunk_size(from.size_class);
  if (from.slabs == nullptr || from.slabs->carved * size == from.slabs->size) {
    if (!add_slab_locked(from)) return nullptr;
  }
  stack_slab& newest = *from.slabs;
  if (newest.carved == newest.usable && !commit_more_locked(newest, size)) return nullptr;
  stack_chunk* const fresh = new (&newest.chunks[newest.carved]) stack_chunk;
  fresh->start = newest.start + newest.carved * size;
  fresh->stacks = newest.stacks + newest.carved * slots_per_chunk(from.size_class);
  fresh->part_of = &newest;
  fresh->size_class = from.size_class;
  ++newest.carved;
  return fresh;
}

// Many chunks at once when there are many already: the kernel stops all page faults of the process
// while it changes a mapping.
bool stack_pool::commit_more_locked(stack_slab& of, std::size_t chunk_size) {
  constexpr std::size_t k_most = 64;
  const std::size_t left = of.size / chunk_size - of.usable;
  for (std::size_t more = std::min({std::max<std::size_t>(of.usable, 1), k_most, left});;
       more = 1) {
    const os::error refused = os::commit({of.start + of.usable * chunk_size, more * chunk_size});
    if (!refused) {
      of.usable += more;
      return true;
    }
    if (more == 1) {
      last_shortage_ = shortage::memory;
      last_error_ = refused;
      return false;
    }
  }
}

// Guards the slots of a chunk whose pages are usable, and makes their records.
bool stack_pool::carve(stack_chunk& c) {
  if (!install_guards(c)) return false;
  const std::size_t pitch = slot_pitch(c.size_class);
  for (std::size_t i = 0; i < slots_per_chunk(c.size_class); ++i) {
    stack* const s = new (&c.stacks[i]) stack{};
    s->high = c.start + (i + 1) * pitch;
    s->low = s->high - k_slot_sizes[c.size_class] + k_guard_size;
    s->home = &c;
    s->size_class = c.size_class;
    sanitizer::stack_made(s->note, s->low, s->high);
  }
  c.free = all_slots(c.size_class);
  c.warm = 0;
  return true;
}

// Every goroutine touches at least the top of its stack. For a whole chunk at once the kernel
// does that in two thirds of the time.
void stack_pool::warm_up(stack_chunk& c) {
  const std::size_t count = slots_per_chunk(c.size_class);
  os::memory_range tops[k_most_slots];
  for (std::size_t i = 0; i < count; ++i) {
    tops[i] = {c.stacks[i].high - os::page_size(), os::page_size()};
  }
  if (os::populate({tops, count})) c.warm = c.free;
}

// Each guard that is a mapping takes two: itself, and the stack it cuts off from its neighbour.
// A fifth of all mappings stays for the rest of the program.
std::size_t stack_pool::guard_mappings_allowed() const { return mapping_limit_ / 5 * 4 / 2; }

bool stack_pool::install_guards(stack_chunk& c) {
  const std::size_t count = slots_per_chunk(c.size_class);
  os::memory_range guards[k_most_slots];
  const std::size_t pitch = slot_pitch(c.size_class);
  for (std::size_t i = 0; i < count; ++i) {
    guards[i] = {c.start + i * pitch, k_guard_size + os::page_size()};
  }
  // Markers are refused on locked memory (mlockall), so mappings remain as the other way.
  if (guards_ == guard_kind::markers && !os::install_guard_markers({guards, count})) {
    c.guards = guard_kind::markers;
    return true;
  }
  const os::lock_guard hold(lock_);
  last_shortage_ = shortage::mappings;
  last_error_ = {ENOMEM};
  if (guard_mappings_ + count > guard_mappings_allowed()) return false;
  c.guards = guard_kind::mappings;
  for (std::size_t i = 0; i < count; ++i) {
    if (const os::error refused = os::install_guard_mapping(guards[i])) {
      last_error_ = refused;
      (void)os::commit({c.start, chunk_size(c.size_class)});  // undoes the guards made so far
      return false;
    }
  }
  guard_mappings_ += count;
  last_shortage_ = shortage::none;
  return true;
}

namespace {

slab_entry* claim_slab_entry() {
  for (slab_entry& entry : g_slabs) {
    // acquire pairs with the release when the last owner left: its stores come before ours.
    if (!entry.claimed.exchange(true, acquire)) return &entry;
  }
  return nullptr;
}

// Makes the slab known to find_stack().
void publish(const stack_slab& made, size_class c) {
  slab_entry& entry = *made.entry;
  entry.size.store(made.size, relaxed);      // relaxed: the release of `start` publishes all three
  entry.size_class.store(c, relaxed);        // as above
  entry.stacks.store(made.stacks, relaxed);  // as above
  entry.start.store(made.start, release);    // pairs with the acquire in find_stack
  const auto used = static_cast<std::size_t>(made.entry - g_slabs) + 1;
  std::size_t seen = g_slabs_used.load(relaxed);  // relaxed: only the exchange below counts
  // release pairs with the acquire in find_stack: a reader that sees the count sees the entry.
  while (seen < used && !g_slabs_used.compare_exchange_weak(seen, used, release, relaxed)) {
  }
}

// The largest piece of address space up to `wanted` that can be had, in units of `unit`.
os::result<os::memory_range> reserve_up_to(std::size_t wanted, std::size_t unit) {
  for (std::size_t size = wanted;; size = size / 2 / unit * unit) {
    const auto space = os::reserve(size, k_page_table_span);
    if (space) return os::memory_range{*space, size};
    if (size / 2 < unit) return space.error();  // RLIMIT_AS, most likely
  }
}

}  // namespace

bool stack_pool::add_slab_locked(shelf& to) {
  const std::size_t per_chunk = slots_per_chunk(to.size_class);
  const std::size_t unit = chunk_size(to.size_class);
  const auto no_space = [this](os::error why) {
    last_shortage_ = shortage::address_space;
    last_error_ = why;
    return false;
  };
  const auto space = reserve_up_to(to.next_slab_size, unit);
  if (!space) return no_space(space.error());
  const std::size_t chunks = space->size / unit;
  const std::size_t record_size =
      chunks * per_chunk * sizeof(stack) + chunks * sizeof(stack_chunk) + sizeof(stack_slab);
  const auto records = os::allocate_records(record_size);
  slab_entry* const entry = records ? claim_slab_entry() : nullptr;
  if (entry == nullptr) {
    (void)os::unmap(*space);
    if (records) (void)os::unmap({*records, record_size});
    return no_space(records ? os::error{ENOMEM} : records.error());
  }

  // The stacks' records come first because they are aligned to cache lines.
  auto* const stacks = static_cast<stack*>(*records);
  auto* const chunk_table = reinterpret_cast<stack_chunk*>(stacks + chunks * per_chunk);
  stack_slab* const made = new (chunk_table + chunks) stack_slab;
  made->next = to.slabs;
  made->start = static_cast<char*>(space->start);
  made->size = space->size;
  made->chunks = chunk_table;
  made->stacks = stacks;
  made->entry = entry;
  made->records = {*records, record_size};
  os::forbid_huge_pages(*space);
  to.slabs = made;
  to.next_slab_size = whole_chunks(std::min(space->size * 2, k_largest_slab), to.size_class);
  stats_.reserved += space->size;
  publish(*made, to.size_class);
  return true;
}

void stack_pool::trim(std::size_t keep) {
  for (std::size_t c = 0; c < k_size_classes; ++c) {
    blank_whole_chunks(shelves_[c], keep);
    cool_free_slots(shelves_[c], keep);
  }
}

namespace {

// The way back from carve(). Without its guards a chunk's page tables go, too.
void uncarve(stack_chunk& c) {
  for (std::size_t i = 0; i < slots_per_chunk(c.size_class); ++i) {
    sanitizer::stack_unmade(c.stacks[i].note);
    c.stacks[i].high = nullptr;
  }
  const os::memory_range all{c.start, chunk_size(c.size_class)};
  if (c.guards == guard_kind::markers) {
    (void)os::remove_guard_markers(all);
  } else {
    (void)os::commit(all);
  }
  (void)os::give_back(all);
}

// Gives back the memory of the slots in `mask`. Neighbours go in one call; guards between them
// stay.
void cool(stack_chunk& c, std::uint64_t mask) {
  while (mask != 0) {
    const auto first = static_cast<unsigned>(std::countr_zero(mask));
    const auto run = static_cast<unsigned>(std::countr_one(mask >> first));
    char* const low = c.stacks[first].low;
    char* const high = c.stacks[first + run - 1].high;
    (void)os::give_back({low, static_cast<std::size_t>(high - low)});
    mask = first + run == k_most_slots ? 0 : mask >> (first + run) << (first + run);
  }
}

}  // namespace

// Chunks with no slot in use go back whole, the longest unused first. A chunk is off its list
// while the kernel works on it: nobody else can reach it then, so the lock is not needed.
void stack_pool::blank_whole_chunks(shelf& of, std::size_t keep) {
  const std::size_t count = slots_per_chunk(of.size_class);
  lock_.acquire();
  for (std::size_t steps = of.open.size(); steps > 0 && of.free >= keep + count; --steps) {
    stack_chunk* const c = of.open.pop_back();
    if (c == nullptr) break;
    if (c->free != all_slots(of.size_class)) {
      of.open.push_front(c);
      continue;
    }
    of.free -= count;
    stats_.free -= count;
    lock_.release();
    uncarve(*c);
    lock_.acquire();
    c->free = 0;
    if (c->guards == guard_kind::mappings) guard_mappings_ -= count;
    of.blank.push_back(c);
    if (--c->part_of->guarded == 0) return_records_locked(of, *c->part_of);
  }
  lock_.release();
}

// A slab without a stack needs no records of stacks: a million of them are 61 MiB. Only their
// memory goes. The addresses stay, because a signal handler may be about to read there, and zero
// is a good answer for it. As above, the chunks are off their list meanwhile.
void stack_pool::return_records_locked(shelf& of, stack_slab& s) {
  const std::size_t chunks = s.carved;  // grows when others carve the rest of the slab meanwhile
  const std::size_t size = chunks * slots_per_chunk(of.size_class) * sizeof(stack);
  const std::size_t whole_pages = size / os::page_size() * os::page_size();
  if (whole_pages == 0) return;
  for (std::size_t i = 0; i < chunks; ++i) of.blank.remove(&s.chunks[i]);
  lock_.release();
  (void)os::give_back({s.stacks, whole_pages});
  lock_.acquire();
  for (std::size_t i = 0; i < chunks; ++i) of.blank.push_back(&s.chunks[i]);
}

// In chunks that are partly in use the free slots stay ready, but without memory. The slots are
// out of the pool's hands while the kernel works on them.
void stack_pool::cool_free_slots(shelf& of, std::size_t keep) {
  lock_.acquire();
  std::size_t warm = 0;
  for (stack_chunk* c = of.open.front(); c != nullptr; c = of.open.next(c)) {
    warm += static_cast<std::size_t>(std::popcount(c->warm));
  }
  for (std::size_t steps = of.open.size(); steps > 0 && warm > keep; --steps) {
    stack_chunk* const c = of.open.pop_back();
    if (c == nullptr) break;
    const std::uint64_t held = c->free;
    const std::uint64_t to_cool = c->warm;
    c->free = c->warm = 0;
    warm -= std::min(warm, static_cast<std::size_t>(std::popcount(to_cool)));
    lock_.release();
    cool(*c, to_cool);
    lock_.acquire();
    if (of.open.contains(c)) of.open.remove(c);  // slots of it came back meanwhile
    c->free |= held;
    of.open.push_front(c);
  }
  lock_.release();
}

void stack_pool::explain_shortage(printer& out) const {
  const os::lock_guard hold(lock_);
  out << "no stack for another goroutine: " << stats_.in_use << " are in use, and ";
  switch (last_shortage_) {
    case shortage::none:
      out << "the last request was met";
      break;
    case shortage::address_space:
      out << "the kernel gives no more address space (" << os::error_name(last_error_) << ", "
          << (stats_.reserved >> 20)
          << " MiB reserved). Is there a limit (ulimit -v)? Smaller stacks need less: "
             "config::stack_size";
      break;
    case shortage::memory:
      out << "the kernel promises no more memory (" << os::error_name(last_error_)
          << "). With vm.overcommit_memory = 2 a stack counts with its full size: allow more, or "
             "choose a smaller config::stack_size";
      break;
    case shortage::mappings:
      out << "the process runs out of memory mappings (" << os::error_name(last_error_)
          << "): vm.max_map_count is " << mapping_limit_
          << ", and without MADV_GUARD_INSTALL (Linux 6.13 and later) each guarded stack takes "
             "two, up to "
          << guard_mappings_allowed()
          << " stacks. Raise it (sysctl -w vm.max_map_count=1000000) or run fewer goroutines at "
             "once";
      break;
  }
}

stack_pool_stats stack_pool::stats() const {
  const os::lock_guard hold(lock_);
  return stats_;
}

stack* stack_cache::take_slow(size_class c) {
  stack* batch[32];
  const std::size_t wanted = std::min<std::size_t>(std::size(batch), (limit(c) + 1) / 2);
  const std::size_t count = pool_.take(c, wanted, batch);
  for (std::size_t i = 1; i < count; ++i) hot_[c].push(batch[i]);
  return count != 0 ? batch[0] : nullptr;
}

void stack_cache::give_slow(size_class c) { move_to_pool(c, limit(c) / 2); }

void stack_cache::drain() {
  for (std::size_t c = 0; c < k_size_classes; ++c) move_to_pool(static_cast<size_class>(c), 0);
}

// The oldest ones, at the bottom, should go; the list is cut there by holding the top aside.
void stack_cache::move_to_pool(size_class c, std::size_t keep) {
  hot_stacks kept;
  while (kept.size() < keep && !hot_[c].empty()) kept.push(hot_[c].pop());
  stack* batch[64];
  while (!hot_[c].empty()) {
    std::size_t count = 0;
    while (count < std::size(batch) && !hot_[c].empty()) batch[count++] = hot_[c].pop();
    pool_.give(batch, count);
  }
  while (!kept.empty()) hot_[c].push(kept.pop());
}

#if defined(MAGPIE_ASAN)
namespace {

// Runs before LeakSanitizer looks: goroutines that wait when the process ends hold what they
// point to.
[[gnu::destructor]] void show_stacks_to_leak_check() {
  for (const slab_entry& entry : g_slabs) {
    const char* const start = entry.start.load(acquire);  // pairs with the release in publish
    if (start == nullptr) continue;
    const size_class c = entry.size_class.load(relaxed);  // relaxed: published by `start`
    const std::size_t slots = entry.size.load(relaxed) / chunk_size(c) * slots_per_chunk(c);
    for (const stack& s : std::span(entry.stacks.load(relaxed), slots)) {  // relaxed: as above
      if (s.occupant != nullptr) sanitizer::memory_holds_objects(s.low, s.high);
    }
  }
}

}  // namespace
#endif

const stack* find_stack(const void* address) {
  const char* const wanted = static_cast<const char*>(address);
  // acquire pairs with the release in publish.
  const std::size_t used = g_slabs_used.load(acquire);
  for (std::size_t i = 0; i < used; ++i) {
    const slab_entry& entry = g_slabs[i];
    const char* const start = entry.start.load(acquire);  // pairs with the release in publish
    // relaxed: published by `start`.
    if (start == nullptr || wanted < start || wanted >= start + entry.size.load(relaxed)) continue;
    const auto offset = static_cast<std::size_t>(wanted - start);
    const size_class c = entry.size_class.load(relaxed);  // relaxed: as above
    const std::size_t slot = offset % chunk_size(c) / slot_pitch(c);
    if (slot >= slots_per_chunk(c)) return nullptr;  // what is left of the chunk
    const stack* const found = entry.stacks.load(relaxed) +
                               offset / chunk_size(c) * slots_per_chunk(c) + slot;  // as above
    return found->high != nullptr ? found : nullptr;  // null: reserved, but no stack yet
  }
  return nullptr;
}

}  // namespace magpie::rt
