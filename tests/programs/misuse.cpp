// Breaks one rule of the runtime's own building blocks, the one its argument names; the check
// that guards it must end the process. Exits with 0 if nothing noticed.

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <memory>
#include <new>
#include <string_view>
#include <thread>
#include <utility>

#include "base/intrusive.h"
#include "os/error.h"
#include "os/fork.h"
#include "os/futex.h"
#include "os/lock.h"
#include "os/memory.h"
#include "os/note.h"
#include "os/signal.h"
#include "os/thread.h"
#include "sched/waiting.h"

using namespace magpie::rt;

namespace {

struct element {
  list_links<element> links;
};
using list_of = intrusive_list<element, &element::links>;

// Not destroyed, since some of them are held when the process ends.
os::lock& new_lock(os::lock_rank rank) { return *new os::lock(rank); }

os::thread start_a_thread() {
  os::result<os::thread> made = os::thread::start([](void*) {}, nullptr);
  if (!made) std::exit(2);
  return std::move(*made);
}

// As a thread of the child that has inherited what is held, by nobody who is there.
template <class Body>
void in_a_child(Body body) {
  const pid_t child = fork();
  if (child == 0) {
    std::thread(body).join();
    _exit(0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  if (WIFSIGNALED(status)) raise(WTERMSIG(status));
}

}  // namespace

int main(int, char** arguments) {
  const std::string_view way = arguments[1];
  os::lock& low = new_lock(os::lock_rank::stack_pool);
  os::lock& high = new_lock(os::lock_rank::leaf);
  os::lock& other_high = new_lock(os::lock_rank::leaf);

  if (way == "falling_ranks") {
    high.acquire();
    low.acquire();
  }
  if (way == "falling_ranks_tried") {
    high.acquire();
    (void)low.try_acquire();
  }
  if (way == "falling_ranks_after_unordered_release") {
    low.acquire();
    high.acquire();
    low.release();
    low.acquire();  // high is still held
  }
  if (way == "same_rank") {
    high.acquire();
    other_high.acquire();
  }
  if (way == "acquire_twice") {
    low.acquire();
    low.acquire();
  }
  if (way == "lock_of_the_parent") {
    os::watch_forks();
    low.acquire();
    in_a_child([&] { low.acquire(); });
  }
  if (way == "object_of_the_parent") {
    os::watch_forks();
    static magpie::detail::lock_word word;
    lock_object(word);
    in_a_child([&] { lock_object(word); });
  }
  if (way == "release_unheld") low.release();
  if (way == "release_on_another_thread") {
    low.acquire();
    std::thread([&] { low.release(); }).join();
  }
  if (way == "lock_destroyed_while_held") {
    const auto mine = std::make_unique<os::member_lock>(os::lock_rank::leaf);
    mine->acquire();
  }
  if (way == "lock_held_where_none_may_be") {
    low.acquire();
    os::assert_no_locks_held();
  }
  if (way == "wake_twice") {
    os::note n;
    n.wake();
    n.wake();
  }
  if (way == "join_twice") {
    os::thread thread = start_a_thread();
    thread.join();
    thread.join();
  }
  if (way == "join_nothing") os::thread().join();
  if (way == "join_moved") {
    os::thread thread = start_a_thread();
    const os::thread moved = std::move(thread);
    thread.join();
  }
  if (way == "drop_thread") (void)start_a_thread();
  if (way == "overwrite_thread") {
    os::thread thread = start_a_thread();
    thread = start_a_thread();
  }
  if (way == "no_handler") (void)os::install_signal_handler(SIGUSR1, nullptr);
  if (way == "no_signal") (void)os::install_signal_handler(0, [](const os::signal_event&) {});
  if (way == "odd_alignment") (void)os::reserve(1 << 20, 3 << 12);
  if (way == "misaligned_futex") {
    alignas(8) static char bytes[8];
    os::futex_wake(reinterpret_cast<os::futex_word*>(bytes + 1), 1);
  }
  if (way == "no_value_no_error") (void)os::result<int>(os::error{});
  if (way == "insert_twice") {
    element e;
    list_of list;
    list.push_back(&e);
    list.push_back(&e);
  }
  if (way == "remove_unlinked") {
    element e;
    list_of().remove(&e);
  }
  return 0;
}
