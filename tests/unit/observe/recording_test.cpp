#include "observe/recording.h"

#include <gtest/gtest.h>

#include <string>

#include <magpie/magpie.h>

#include "observe/trace_reader.h"

namespace magpie {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t k_most = 4096;

TEST(Recording, EndsWhenItIsLargeAsAWholeTrace) {
  runtime r({.procs = 2});
  r.run([] {
    net::tcp_listener listener = net::tcp_listener::listen("127.0.0.1:0");
    const net::tcp_stream client = net::tcp_stream::connect(listener.local_address());
    net::tcp_stream server = listener.accept();

    auto recorded = async([&] { return rt::record_trace(server, clock::now() + 1h, k_most); });
    while (!trace::enabled()) this_goroutine::yield();
    while (trace::enabled()) async([] {}).get();
    const std::string text = recorded.get();

    EXPECT_GE(text.size(), k_most);
    rt::trace_reader reader({reinterpret_cast<const std::uint8_t*>(text.data()), text.size()});
    std::size_t events = 0;
    for (rt::trace_event event; reader.next(event);) ++events;
    EXPECT_EQ(reader.error(), nullptr) << reader.error()->what;
    EXPECT_GT(events, 0u);
  });
}

}  // namespace
}  // namespace magpie
