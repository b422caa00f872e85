#include "os/fd.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdlib>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "interrupt.h"

namespace magpie::rt::os {
namespace {

bool is_open(int fd) { return fcntl(fd, F_GETFD) >= 0; }
bool is_close_on_exec(int fd) { return (fcntl(fd, F_GETFD) & FD_CLOEXEC) != 0; }
bool is_nonblocking(int fd) { return (fcntl(fd, F_GETFL) & O_NONBLOCK) != 0; }

std::span<const std::byte> bytes(std::string_view text) { return std::as_bytes(std::span(text)); }

std::string read_text(int fd, std::size_t size = 100) {
  std::string text(size, '?');
  const auto got = read(fd, std::as_writable_bytes(std::span(text)));
  EXPECT_TRUE(got) << error_name(got.error());
  text.resize(got ? *got : 0);
  return text;
}

file_descriptor temporary_file() {
  char path[] = "/tmp/magpie_fd_test_XXXXXX";
  file_descriptor file(mkstemp(path));
  unlink(path);
  return file;
}

TEST(FileDescriptor, OwnsNothingAtFirst) {
  file_descriptor fd;
  EXPECT_FALSE(fd);
  EXPECT_FALSE(fd.close()) << "closing nothing is no error";
}

TEST(FileDescriptor, ClosesWhenDestroyed) {
  int number = -1;
  {
    file_descriptor fd(::dup(1));
    number = fd.get();
    EXPECT_TRUE(is_open(number));
  }
  EXPECT_FALSE(is_open(number));
}

TEST(FileDescriptor, MovingLeavesOneOwner) {
  file_descriptor first(::dup(1));
  const int number = first.get();
  file_descriptor second(std::move(first));
  EXPECT_FALSE(first);  // NOLINT: what is left of it is part of the contract
  EXPECT_EQ(second.get(), number);

  file_descriptor third(::dup(1));
  const int replaced = third.get();
  third = std::move(second);
  EXPECT_FALSE(is_open(replaced));
  EXPECT_EQ(third.get(), number);
  EXPECT_TRUE(is_open(number));
}

TEST(FileDescriptor, SurvivesMovingToItself) {
  file_descriptor fd(::dup(1));
  const int number = fd.get();
  file_descriptor& same = fd;
  fd = std::move(same);
  EXPECT_EQ(fd.get(), number);
  EXPECT_TRUE(is_open(number));
}

TEST(FileDescriptor, ReleaseGivesUpTheDescriptorOpen) {
  file_descriptor fd(::dup(1));
  const int number = fd.release();
  EXPECT_FALSE(fd);
  EXPECT_TRUE(is_open(number));
  ::close(number);
}

TEST(FileDescriptor, CloseReportsTheErrorAndOwnsNothingAfterwards) {
  const int stale = ::dup(1);
  ::close(stale);
  file_descriptor fd(stale);
  EXPECT_EQ(fd.close(), error{EBADF});
  EXPECT_FALSE(fd);
}

TEST(Fd, EverythingMadeIsCloseOnExec) {
  auto pipe = make_pipe();
  auto event = make_eventfd(fd_mode::blocking);
  auto file = open_file("/dev/null", O_RDONLY);
  ASSERT_TRUE(pipe && event && file);
  EXPECT_TRUE(is_close_on_exec(pipe->read_end.get()));
  EXPECT_TRUE(is_close_on_exec(pipe->write_end.get()));
  EXPECT_TRUE(is_close_on_exec(event->get()));
  EXPECT_TRUE(is_close_on_exec(file->get()));
}

TEST(Fd, OpenFileReportsWhyItCannot) {
  EXPECT_EQ(open_file("/no/such/file", O_RDONLY).error(), error{ENOENT});
}

TEST(Fd, BytesTravelThroughAPipeUntilItsEnd) {
  auto pipe = make_pipe();
  ASSERT_TRUE(pipe);
  const auto written = write(pipe->write_end.get(), bytes("magpie"));
  ASSERT_TRUE(written);
  EXPECT_EQ(*written, 6u);
  EXPECT_EQ(read_text(pipe->read_end.get(), 3), "mag");
  EXPECT_EQ(read_text(pipe->read_end.get()), "pie");
  EXPECT_FALSE(pipe->write_end.close());
  EXPECT_EQ(read_text(pipe->read_end.get()), "");
}

TEST(Fd, ANonblockingPipeAnswersEagain) {
  auto pipe = make_pipe(fd_mode::nonblocking);
  ASSERT_TRUE(pipe);
  std::byte byte[1];
  EXPECT_EQ(read(pipe->read_end.get(), byte).error(), error{EAGAIN});

  const std::string block(4096, 'x');
  result<std::size_t> written = std::size_t{0};
  while (written) written = write(pipe->write_end.get(), bytes(block));
  EXPECT_EQ(written.error(), error{EAGAIN});
}

TEST(Fd, WaitingForRoomEndsWithItOrInTime) {
  auto pipe = make_pipe(fd_mode::nonblocking);
  ASSERT_TRUE(pipe);
  const int to = pipe->write_end.get();
  EXPECT_TRUE(*wait_ready(to, readiness::to_write, k_never));
  const std::vector<std::byte> many(1 << 16);
  while (write(to, many)) {
  }
  const nanos end = now() + 20'000'000;
  EXPECT_FALSE(*wait_ready(to, readiness::to_write, end));
  EXPECT_GE(now(), end);
  (void)pipe->read_end.close();
  EXPECT_TRUE(*wait_ready(to, readiness::to_write, k_never)) << "of an error, at once";
  EXPECT_EQ(wait_ready(-1, readiness::to_write, k_never).error().code, EBADF);
}

TEST(Fd, PreadAndPwriteLeaveThePositionAlone) {
  const file_descriptor file = temporary_file();
  ASSERT_TRUE(file);
  const auto written = pwrite(file.get(), bytes("0123456789"), 5);
  ASSERT_TRUE(written);
  EXPECT_EQ(*written, 10u);

  std::array<char, 4> part{};
  const auto got = pread(file.get(), std::as_writable_bytes(std::span(part)), 8);
  ASSERT_TRUE(got);
  EXPECT_EQ(std::string_view(part.data(), *got), "3456");
  EXPECT_EQ(::lseek(file.get(), 0, SEEK_CUR), 0);
}

TEST(Fd, BadDescriptorsAreErrorsNotCrashes) {
  std::byte byte[1] = {};
  EXPECT_EQ(read(-1, byte).error(), error{EBADF});
  EXPECT_EQ(write(-1, byte).error(), error{EBADF});
  EXPECT_EQ(pread(-1, byte, 0).error(), error{EBADF});
  EXPECT_EQ(pwrite(-1, byte, 0).error(), error{EBADF});
  EXPECT_EQ(set_nonblocking(-1), error{EBADF});
}

TEST(Fd, AnEventfdCountsFromItsInitialCount) {
  auto event = make_eventfd(fd_mode::nonblocking, 3);
  ASSERT_TRUE(event);
  const std::uint64_t two = 2;
  ASSERT_TRUE(write(event->get(), std::as_bytes(std::span(&two, 1))));
  std::uint64_t count = 0;
  ASSERT_TRUE(read(event->get(), std::as_writable_bytes(std::span(&count, 1))));
  EXPECT_EQ(count, 5u);
  EXPECT_EQ(read(event->get(), std::as_writable_bytes(std::span(&count, 1))).error(),
            error{EAGAIN});
}

TEST(Fd, SetNonblockingKeepsTheOtherFlags) {
  const file_descriptor file = temporary_file();
  ASSERT_TRUE(file);
  ASSERT_EQ(fcntl(file.get(), F_SETFL, O_APPEND), 0);
  EXPECT_FALSE(is_nonblocking(file.get()));
  EXPECT_FALSE(set_nonblocking(file.get()));
  EXPECT_FALSE(set_nonblocking(file.get())) << "twice is no error";
  EXPECT_TRUE(is_nonblocking(file.get()));
  EXPECT_NE(fcntl(file.get(), F_GETFL) & O_APPEND, 0);
}

TEST(Fd, ReadGoesOnAfterASignal) {
  const counted_interrupts interrupts;
  auto pipe = make_pipe();
  ASSERT_TRUE(pipe);
  std::string text;
  std::thread reader([&] { text = read_text(pipe->read_end.get()); });
  counted_interrupts::interrupt_until(reader, [] { return counted_interrupts::count() >= 100; });
  ASSERT_TRUE(write(pipe->write_end.get(), bytes("late")));
  reader.join();
  EXPECT_EQ(text, "late");
}

}  // namespace
}  // namespace magpie::rt::os
