// What the inside of a channel offers to timers.
#include "chan/chan.h"

#include <gtest/gtest.h>

#include <magpie/async.h>
#include <magpie/channel.h>
#include <magpie/runtime.h>

namespace magpie::rt {
namespace {

struct timer_channel {
  int handles_gone = 0;
  channel_core* core = make_timer_channel(
      detail::element_type_of<int>,
      [](channel_core* c, void* self) {
        ++static_cast<timer_channel*>(self)->handles_gone;
        destroy_channel(c);
      },
      this);
  receiver<int> handle{detail::channel_handle(core)};

  bool post_value(int value, std::uint64_t sequence) {
    const entry inside;
    wake_list woken;
    object_guard held(core->lock);
    const bool posted = post_locked(*core, &value, sequence, woken);
    held.unlock();
    woken.wake_all(inside.m());
    return posted;
  }

  renumbered renumber() {
    const entry inside;
    const object_guard held(core->lock);
    return renumber_locked(*core);
  }
};

TEST(TimerChannel, HoldsOneValueAndReportsNone) {
  timer_channel t;
  EXPECT_TRUE(t.post_value(1, 0));
  EXPECT_FALSE(t.post_value(2, 0));
  EXPECT_EQ(t.handle.size(), 0u);
  EXPECT_EQ(t.handle.capacity(), 0u);
  int value = 0;
  EXPECT_EQ(t.handle.try_receive(value), channel_result::ok);
  EXPECT_EQ(value, 1);
  EXPECT_EQ(t.handle.try_receive(value), channel_result::would_block);
}

TEST(TimerChannel, WakesWhoWaits) {
  run([] {
    timer_channel t;
    future<std::optional<int>> receives = async([half = t.handle] { return half.receive(); });
    bool waits = false;
    while (!waits) {
      this_goroutine::yield();
      const entry inside;
      const object_guard held(t.core->lock);
      waits = t.core->receivers.first != nullptr;
    }
    EXPECT_TRUE(t.post_value(3, 0));
    EXPECT_EQ(receives.get(), 3);
  });
}

TEST(TimerChannel, DropsValuesWithAnOldNumber) {
  timer_channel t;
  EXPECT_TRUE(t.post_value(1, 0));
  renumbered now = t.renumber();
  EXPECT_EQ(now.sequence, 1u);
  EXPECT_TRUE(now.discarded);
  EXPECT_FALSE(t.post_value(2, 0));
  int value = 0;
  EXPECT_EQ(t.handle.try_receive(value), channel_result::would_block);
  EXPECT_TRUE(t.post_value(3, 1));
  EXPECT_EQ(t.handle.receive(), 3);
  now = t.renumber();
  EXPECT_FALSE(now.discarded);
}

TEST(TimerChannel, SaysWhenTheLastHandleIsGone) {
  timer_channel t;
  receiver<int> copy = t.handle;
  t.handle = nullptr;
  EXPECT_EQ(t.handles_gone, 0);
  copy = nullptr;
  EXPECT_EQ(t.handles_gone, 1);
}

}  // namespace
}  // namespace magpie::rt
