#include "poll/poller.h"

#include <new>
#include <utility>

#include "base/check.h"
#include "os/memory.h"

namespace magpie::rt {
namespace {

using os::epoll_events;

// No address has these tokens.
constexpr std::uint64_t k_alarm = poll_event::k_ring_tokens;
constexpr std::uint64_t k_guests = k_alarm + 1;

constexpr epoll_events k_for_life = epoll_events::readable | epoll_events::writable |
                                    epoll_events::peer_closed | epoll_events::priority |
                                    epoll_events::edge_triggered;

constexpr epoll_events k_end =
    epoll_events::peer_closed | epoll_events::hung_up | epoll_events::failed;

constinit atomic<std::uint64_t> g_numbers{0};
constinit os::lock g_lock{os::lock_rank::leaf};  // guards the list of all

}  // namespace

constinit poller::list poller::g_all;

poller::poller() : number_(g_numbers.fetch_add(1, relaxed) + 1) {  // relaxed: only to differ
  const os::lock_guard hold(g_lock);
  g_all.push_back(this);
}

// Whoever waited here has ended before; and with the sets the kernel forgets the addresses.
poller::~poller() {
  {
    const os::lock_guard hold(g_lock);
    g_all.remove(this);
  }
  for (auto& place : guest_chunks_) {
    // relaxed: nobody else is left.
    if (chunk* const records = place.load(relaxed)) (void)os::unmap({records, sizeof(chunk)});
  }
}

os::error poller::start() {
  if (started()) return {};
  const os::lock_guard hold(lock_);
  if (started()) return {};
  auto own = os::epoll::create();
  if (!own) return own.error();
  auto guests = os::epoll::create();
  if (!guests) return guests.error();
  auto alarm = os::make_eventfd(os::fd_mode::nonblocking);
  if (!alarm) return alarm.error();
  if (const auto failed = own->add(alarm->get(), epoll_events::readable, k_alarm)) return failed;
  if (const auto failed = own->add(guests->fd(), epoll_events::readable, k_guests)) return failed;
  own_.emplace(std::move(*own));
  guests_.emplace(std::move(*guests));
  alarm_ = std::move(*alarm);
  started_.store(true, release);  // pairs with started()
  return {};
}

os::error poller::add(int fd, std::uint64_t token) {
  registrations_.fetch_add(1, release);  // pairs with collect()
  const os::error failed = own_->add(fd, k_for_life, token);
  // Known already: another runtime was the last to use it, and this one an earlier one.
  return failed.code == EEXIST ? own_->modify(fd, k_for_life, token) : failed;
}

void poller::forget(int fd) {
  const os::lock_guard hold(g_lock);
  for (poller* p = g_all.front(); p != nullptr; p = list::next(p)) {
    if (p->started()) (void)p->own_->remove(fd);  // most have never heard of it
  }
}

os::error poller::add_ring(int fd, int number) {
  registrations_.fetch_add(1, release);  // pairs with collect()
  return own_->add(fd, epoll_events::readable | epoll_events::edge_triggered,
                   static_cast<std::uint64_t>(number));
}

poll_desc* poller::guest(int fd) {
  const auto number = static_cast<std::size_t>(fd);
  if (number >= k_chunk * k_chunks) return nullptr;
  auto& place = guest_chunks_[number / k_chunk];
  chunk* records = place.load(acquire);  // pairs with the release below
  if (records == nullptr) {
    const os::lock_guard hold(lock_);
    records = place.load(relaxed);  // relaxed: written under the lock
    if (records == nullptr) {
      const auto memory = os::allocate_records(sizeof(chunk));
      if (!memory) return nullptr;
      auto* const first = static_cast<poll_desc*>(*memory);
      for (std::size_t i = 0; i < k_chunk; ++i) {
        auto* const d = ::new (first + i) poll_desc;
        d->fd = static_cast<int>(number / k_chunk * k_chunk + i);
        d->guest = true;
      }
      records = reinterpret_cast<chunk*>(first);
      place.store(records, release);  // pairs with the acquire above
    }
  }
  return &(*records)[number % k_chunk];
}

os::error poller::arm_guest(int fd, bool readable, bool writable, std::uint64_t token) {
  registrations_.fetch_add(1, release);  // pairs with collect()
  const epoll_events wanted =
      (readable ? epoll_events::readable | epoll_events::peer_closed : epoll_events::none) |
      (writable ? epoll_events::writable : epoll_events::none) | epoll_events::one_shot;
  const os::error failed = guests_->modify(fd, wanted, token);
  return failed.code == ENOENT ? guests_->add(fd, wanted, token) : failed;
}

void poller::poll(std::int64_t timeout, poll_batch& out) {
  os::epoll_record records[os::epoll::k_max_records];
  const auto found = own_->wait(records, timeout);
  // EINTR: whoever waits knows what is left of its time. Nothing else can go wrong here.
  if (!found) {
    MAGPIE_CHECK(found.error().code == EINTR, "epoll_wait failed");
    return;
  }
  collect({records, *found}, out);
  if (timeout != 0) silence_alarm({records, *found});
}

// By the one who waits: one who only looks leaves the alarm to the one it is meant for.
void poller::silence_alarm(std::span<const os::epoll_record> records) {
  for (const os::epoll_record& r : records) {
    std::uint64_t count = 0;
    if (r.token == k_alarm)
      (void)os::read(alarm_.get(), std::as_writable_bytes(std::span(&count, 1)));
  }
}

void poller::collect(std::span<const os::epoll_record> records, poll_batch& out) {
  (void)registrations_.load(acquire);  // pairs with add() and its like
  for (const os::epoll_record& r : records) {
    if (r.token == k_alarm) continue;
    if (r.token == k_guests) {
      os::epoll_record more[os::epoll::k_max_records];
      if (const auto found = guests_->wait(more, 0)) collect({more, *found}, out);
      continue;
    }
    out.events[out.count++] = {
        .token = r.token,
        .readable = any(r.events & (epoll_events::readable | epoll_events::priority | k_end)),
        .writable =
            any(r.events & (epoll_events::writable | epoll_events::hung_up | epoll_events::failed)),
        .uncertain = any(r.events & (k_end | epoll_events::priority)),
    };
  }
}

void poller::interrupt() {
  const std::uint64_t one = 1;
  // EAGAIN would need 2^64 interrupts.
  (void)os::write(alarm_.get(), std::as_bytes(std::span(&one, 1)));
}

}  // namespace magpie::rt
