// select.cpp: waiting for several channels at a time.
//
// The easy way first: a look at every channel without any lock, then an attempt at one of those
// that seem ready, drawn by lot, with that channel's lock alone. Doing one case that is ready at
// that moment is all that select has to do, so most calls end here and pay for one lock however
// many cases they have.
//
// What cannot be decided like this is that no case is ready: a value may move from a channel not
// yet looked at to one looked at before, so that each look comes too late although at every moment
// something was ready. So the hard way locks all channels, in the order of the addresses of their
// locks, each once, and looks again: what it sees is one moment. Then the call gives up, or puts a
// node into every channel before it lets go of the locks.
//
// The waiter is contested: whoever takes one of its nodes off a list must win decide(), and there
// is one winner. The woken one takes its other nodes off. It locks every channel for that, in the
// same order in which the commit of its park unlocked them, so it cannot be gone with its stack,
// where the entries are, while the commit still reads them.
//
// Channels whose elements may throw are taken part in with their turns held (turn.h): the turns are
// taken before the locks, in the same order. When such a case is chosen, the other turns and all
// locks are released and the operation is done as an attempt of its own; it may find that the
// partner has left meanwhile, and then all begins again.

#include <magpie/detail/select_core.h>

#include <algorithm>
#include <new>

#include "base/random.h"
#include "chan/chan.h"
#include "chan/turn.h"
#include "os/clock.h"

namespace magpie::rt {
namespace {

using detail::element_kind;
using detail::select_entry;
using detail::select_outcome;
using kind = select_entry::kind;

static_assert(sizeof(chan_node) <= sizeof(select_entry::node));
static_assert(alignof(chan_node) <= alignof(void*));

chan_node& node_of(select_entry& e) { return *std::launder(reinterpret_cast<chan_node*>(e.node)); }

bool by_turns(const select_entry& e) {
  return e.channel != nullptr && e.channel->kind == element_kind::throwing;
}

operation operation_of(const select_entry& e) {
  return e.what == kind::send ? operation::send(e.slot) : operation::receive(e.slot, e.deliver);
}

// ---- Chance -----------------------------------------------------------------------------------

constinit thread_local random_source t_random{0};
constinit thread_local bool t_seeded = false;

// On a plain thread. Never inlined: the address of a thread-local must not be kept.
[[gnu::noinline]] std::uint32_t draw_outside(std::uint32_t bound) {
  if (!t_seeded) {
    t_random = random_source(os::ticks() ^ reinterpret_cast<std::uintptr_t>(&t_random));
    t_seeded = true;
  }
  return t_random.below(bound);
}

std::uint32_t draw(M* m, std::size_t bound) {
  const auto n = static_cast<std::uint32_t>(bound);
  return m != nullptr ? m->random.below(n) : draw_outside(n);
}

// ---- One call of select -----------------------------------------------------------------------

class selection {
 public:
  selection(select_entry* cases, std::size_t count) : cases_(cases), count_(count) { survey(); }

  select_outcome run();

 private:
  static constexpr std::size_t k_nobody = SIZE_MAX;

  // What became of a try.
  struct attempt {
    std::size_t index = k_nobody;
    step result = step::must_wait;
    bool in_turn = false;  // chosen only: has to be done in its channel's turn

    bool found() const { return index != k_nobody; }
  };

  void survey();
  bool is_plain_operation() const;
  select_outcome plain_operation() const;
  attempt the_easy_way();
  attempt the_hard_way();

  bool looks_ready(const select_entry& e) const;
  step try_locked(select_entry& e, waiter*& partner, bool& in_turn);
  attempt try_alone(entry& inside, std::size_t index);
  attempt try_all_locked(M* m, waiter*& partner);
  std::size_t draw_candidate(M* m, std::size_t& left);

  void sort_by_lock();
  template <class Visit>
  void for_each_lock(Visit visit) const;
  void lock_all() const;
  void unlock_all() const;
  void take_turns() const;
  void pass_turns_on(const channel_core* but) const;

  attempt wait(entry& inside);
  bool wait_until_decided(entry& inside, waiter& me);
  void enlist_all(waiter& me);
  void withdraw_all();
  attempt attempt_in_its_turn(std::size_t index) const;

  os::nanos deadline();

  select_entry* const cases_;
  const std::size_t count_;
  std::size_t able_ = 0;              // cases that can ever be ready, not counting time
  std::size_t last_able_ = k_nobody;  // one of them
  std::size_t otherwise_ = k_nobody;
  std::size_t timeout_ = k_nobody;   // the earliest of those that count from the call
  std::size_t deadline_ = k_nobody;  // the earliest of the points of time
  bool deadline_is_over_ = false;
  bool any_by_turns_ = false;
  bool sorted_ = false;
  os::nanos wait_until_ = 0;           // 0: not known yet
  std::size_t timer_case_ = k_nobody;  // which case that is
};

void selection::survey() {
  for (std::size_t i = 0; i < count_; ++i) {
    select_entry& e = cases_[i];
    switch (e.what) {
      case kind::send:
      case kind::receive:
        if (e.channel == nullptr) {
          e.what = kind::never;
          break;
        }
        e.lock = &e.channel->lock;
        any_by_turns_ |= by_turns(e);
        last_able_ = i;
        ++able_;
        break;
      case kind::source:
        e.lock = e.source->lock;
        last_able_ = i;
        ++able_;
        break;
      case kind::timeout:
        if (timeout_ == k_nobody || e.time < cases_[timeout_].time) timeout_ = i;
        break;
      case kind::deadline:
        if (deadline_ == k_nobody || e.time < cases_[deadline_].time) deadline_ = i;
        break;
      case kind::otherwise:
        otherwise_ = i;
        break;
      case kind::never:
        break;
    }
  }
  deadline_is_over_ = deadline_ != k_nobody && cases_[deadline_].time.count() <= os::now();
}

select_outcome selection::run() {
  if (is_plain_operation()) return plain_operation();
  attempt a;
  do {
    a = the_easy_way();
    if (!a.found()) a = the_hard_way();
  } while (!a.found());
  if (a.result == step::closed && cases_[a.index].what == kind::send) throw_closed_send();
  return {a.index, a.result == step::closed ? channel_result::closed : channel_result::ok};
}

// One channel, and nothing else that could happen.
bool selection::is_plain_operation() const {
  return able_ == 1 && otherwise_ == k_nobody && timeout_ == k_nobody && deadline_ == k_nobody &&
         cases_[last_able_].what != kind::source;
}

select_outcome selection::plain_operation() const {
  const select_entry& e = cases_[last_able_];
  if (e.what == kind::receive) {
    return {last_able_, detail::channel_receive(e.channel, e.slot, e.deliver)};
  }
  detail::channel_send(e.channel, e.slot);
  return {last_able_, channel_result::ok};
}

// ---- Is it ready? -----------------------------------------------------------------------------

// Without the lock: a hint.
bool selection::looks_ready(const select_entry& e) const {
  switch (e.what) {
    case kind::send:
      return !looks_unsendable(*e.channel);
    case kind::receive:
      return !looks_unreceivable(*e.channel) || is_closed(*e.channel);
    case kind::source:
      return true;
    default:
      return false;
  }
}

// With the lock. An operation in turn is only chosen, not done.
step selection::try_locked(select_entry& e, waiter*& partner, bool& in_turn) {
  switch (e.what) {
    case kind::send:
      if (by_turns(e)) break;
      return send_locked(*e.channel, e.slot, partner);
    case kind::receive:
      if (by_turns(e)) break;
      return receive_locked(*e.channel, e.slot, partner);
    case kind::source:
      return e.source->take(*e.source) ? step::done : step::must_wait;
    default:
      return step::must_wait;
  }
  in_turn = looks_ready(e);
  return in_turn ? step::done : step::must_wait;
}

// One of the candidates, which is none any more.
std::size_t selection::draw_candidate(M* m, std::size_t& left) {
  const std::size_t at = left == 1 ? 0 : draw(m, left);
  const std::size_t index = cases_[at].candidate;
  cases_[at].candidate = cases_[--left].candidate;
  return index;
}

// ---- The easy way -----------------------------------------------------------------------------

selection::attempt selection::the_easy_way() {
  std::size_t left = 0;
  for (std::size_t i = 0; i < count_; ++i) {
    if (looks_ready(cases_[i])) cases_[left++].candidate = static_cast<std::uint32_t>(i);
  }
  if (deadline_is_over_) cases_[left++].candidate = static_cast<std::uint32_t>(deadline_);
  if (left == 0) return {};

  std::size_t in_turn = k_nobody;
  {
    entry inside;
    while (left != 0) {
      const std::size_t index = draw_candidate(inside.m(), left);
      if (index == deadline_) return {index, step::done};
      if (by_turns(cases_[index])) {
        in_turn = index;
        break;
      }
      if (const attempt a = try_alone(inside, index); a.found()) return a;
    }
  }
  if (in_turn == k_nobody) return {};
  take_turn(*cases_[in_turn].channel);
  return attempt_in_its_turn(in_turn);
}

selection::attempt selection::try_alone(entry& inside, std::size_t index) {
  select_entry& e = cases_[index];
  waiter* partner = nullptr;
  bool in_turn = false;
  object_guard held(*e.lock);
  const step result = try_locked(e, partner, in_turn);
  held.unlock();
  if (partner != nullptr) partner->wake(inside.m());
  return {result == step::must_wait ? k_nobody : index, result};
}

selection::attempt selection::attempt_in_its_turn(std::size_t index) const {
  channel_core& c = *cases_[index].channel;
  switch (attempt_in_turn(c, operation_of(cases_[index]))) {
    case channel_result::ok:
      return {index, step::done};
    case channel_result::closed:
      return {index, step::closed};
    case channel_result::would_block:
      break;
  }
  pass_turn_on(c);
  return {};
}

// ---- All locks at once ------------------------------------------------------------------------

// Lists, in cases_[0 .. able_).by_lock, the cases that can be ready in the order of their locks.
void selection::sort_by_lock() {
  if (sorted_) return;
  sorted_ = true;
  std::size_t n = 0;
  for (std::size_t i = 0; i < count_; ++i) {
    const kind what = cases_[i].what;
    if (what != kind::send && what != kind::receive && what != kind::source) continue;
    cases_[n++].by_lock = static_cast<std::uint32_t>(i);
  }
  // An order of numbers that live in an array of larger things: insertion for a few, a heap for
  // thousands; neither allocates.
  const auto comes_before = [this](std::uint32_t a, std::uint32_t b) {
    return std::less<>()(cases_[a].lock, cases_[b].lock);
  };
  const auto number = [this](std::size_t i) -> std::uint32_t& { return cases_[i].by_lock; };
  constexpr std::size_t k_few = 32;
  if (n <= k_few) {
    for (std::size_t i = 1; i < n; ++i) {
      for (std::size_t k = i; k > 0 && comes_before(number(k), number(k - 1)); --k) {
        std::swap(number(k), number(k - 1));
      }
    }
    return;
  }
  const auto sift_down = [&](std::size_t root, std::size_t end) {
    for (std::size_t child; (child = 2 * root + 1) < end; root = child) {
      if (child + 1 < end && comes_before(number(child), number(child + 1))) ++child;
      if (!comes_before(number(root), number(child))) return;
      std::swap(number(root), number(child));
    }
  };
  for (std::size_t root = n / 2; root-- > 0;) sift_down(root, n);
  for (std::size_t end = n; --end > 0;) {
    std::swap(number(0), number(end));
    sift_down(0, end);
  }
}

// Calls visit(case) once for every distinct lock, in their order. The next one is known before the
// visit: after the last unlock nothing of the selection may be touched.
template <class Visit>
void selection::for_each_lock(Visit visit) const {
  const std::size_t n = able_;
  for (std::size_t i = 0; i < n;) {
    select_entry& e = cases_[cases_[i].by_lock];
    const detail::lock_word* const lock = e.lock;
    do {
      ++i;
    } while (i < n && cases_[cases_[i].by_lock].lock == lock);
    visit(e);
  }
}

void selection::lock_all() const {
  for_each_lock([](select_entry& e) { lock_object(*e.lock); });
}

void selection::unlock_all() const {
  for_each_lock([](select_entry& e) { unlock_object(*e.lock); });
}

void selection::take_turns() const {
  if (!any_by_turns_) return;
  for_each_lock([](select_entry& e) {
    if (by_turns(e)) take_turn(*e.channel);
  });
}

void selection::pass_turns_on(const channel_core* but) const {
  if (!any_by_turns_) return;
  for_each_lock([but](select_entry& e) {
    if (by_turns(e) && e.channel != but) pass_turn_on(*e.channel);
  });
}

selection::attempt selection::try_all_locked(M* m, waiter*& partner) {
  for (std::size_t i = 0; i < able_; ++i) cases_[i].candidate = cases_[i].by_lock;
  for (std::size_t left = able_; left != 0;) {
    const std::size_t index = draw_candidate(m, left);
    bool in_turn = false;
    const step result = try_locked(cases_[index], partner, in_turn);
    if (result != step::must_wait) return {index, result, in_turn};
  }
  if (deadline_is_over_) return {deadline_, step::done};
  if (otherwise_ != k_nobody) return {otherwise_, step::done};
  if (timeout_ != k_nobody && cases_[timeout_].time <= duration::zero()) {
    return {timeout_, step::done};
  }
  return {};
}

selection::attempt selection::the_hard_way() {
  // One lock is one moment: the easy way has seen all of it.
  if (able_ <= 1 && otherwise_ != k_nobody) return {otherwise_, step::done};
  sort_by_lock();
  deadline();
  take_turns();
  attempt a;
  bool waited = false;
  {
    entry inside;
    lock_all();
    waiter* partner = nullptr;
    a = try_all_locked(inside.m(), partner);
    if (!a.found()) {
      waited = true;
      a = wait(inside);
    } else {
      unlock_all();
      if (partner != nullptr) partner->wake(inside.m());
    }
  }
  if (!waited) pass_turns_on(a.in_turn ? cases_[a.index].channel : nullptr);
  return a.in_turn ? attempt_in_its_turn(a.index) : a;
}

// ---- Waiting ----------------------------------------------------------------------------------

// When the waiting ends, from the first call on.
os::nanos selection::deadline() {
  if (wait_until_ != 0) return wait_until_;
  wait_until_ = os::k_never;
  if (timeout_ != k_nobody) {
    wait_until_ = deadline_after(cases_[timeout_].time);
    timer_case_ = timeout_;
  }
  if (deadline_ != k_nobody && cases_[deadline_].time.count() < wait_until_) {
    wait_until_ = cases_[deadline_].time.count();
    timer_case_ = deadline_;
  }
  return wait_until_;
}

void selection::enlist_all(waiter& me) {
  for (std::size_t i = 0; i < able_; ++i) {
    const std::uint32_t index = cases_[i].by_lock;
    select_entry& e = cases_[index];
    auto* const node = ::new (static_cast<void*>(e.node)) chan_node{me};
    node->slot = e.slot;
    node->deliver = e.deliver;
    node->index = index;
    if (e.what == kind::send) {
      enlist_sender(*e.channel, *node);
    } else if (e.what == kind::receive) {
      enlist_receiver(*e.channel, *node);
    } else {
      e.source->enlist(*e.source, *node);
    }
  }
}

// Every lock is taken, also those of channels whose node is gone: see the head of the file.
void selection::withdraw_all() {
  for (std::size_t i = 0; i < able_;) {
    detail::lock_word& lock = *cases_[cases_[i].by_lock].lock;
    const object_guard held(lock);
    for (; i < able_ && cases_[cases_[i].by_lock].lock == &lock; ++i) {
      select_entry& e = cases_[cases_[i].by_lock];
      if (e.what == kind::source) {
        e.source->withdraw(*e.source, node_of(e));
      } else {
        remove(e.what == kind::send ? e.channel->senders : e.channel->receivers, node_of(e));
        update_hints(*e.channel);
      }
    }
  }
}

// False: the time is up.
bool selection::wait_until_decided(entry& inside, waiter& me) {
  const entry::enlist_function let_go = [](void* self) {
    static_cast<const selection*>(self)->unlock_all();
    return true;
  };
  const wait_reason why = count_ == 0 ? wait_reason::select_no_cases : wait_reason::select;
  if (wait_until_ != os::k_never) return inside.block_until(me, why, let_go, this, wait_until_);
  inside.block(me, why, let_go, this);
  return true;
}

// All locks and turns are held, and nothing is ready. Returns nothing found: begin again.
selection::attempt selection::wait(entry& inside) {
  waiter me;
  me.contested = true;
  me.object = able_ != 0 ? cases_[last_able_].lock : nullptr;
  enlist_all(me);
  if (any_by_turns_) {
    for_each_lock([&](select_entry& e) {
      if (by_turns(e)) pass_turn_on_locked(*e.channel, inside.m());
    });
  }
  const bool decided = wait_until_decided(inside, me);
  withdraw_all();
  if (!decided) return {timer_case_, step::done};

  // relaxed: who decided has woken us since.
  const auto* const winner =
      static_cast<const chan_node*>(static_cast<const wait_node*>(me.decided.load(relaxed)));
  const std::size_t index = winner->index;
  if (cases_[index].what == kind::source) return {index, step::done};
  switch (winner->end) {
    case chan_node::outcome::done:
      return {index, step::done};
    case chan_node::outcome::closed:
      return {index, step::closed};
    case chan_node::outcome::has_turn:
      break;
  }
  return {index, step::done, true};
}

}  // namespace
}  // namespace magpie::rt

namespace magpie::detail {

select_outcome select_among(select_entry* cases, std::size_t count) {
  return rt::selection(cases, count).run();
}

}  // namespace magpie::detail
