#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/print.h"
#include "interrupt.h"
#include "os/clock.h"
#include "os/fd.h"

namespace magpie::rt::os {
namespace {

// While it lives, standard error goes to `fd`.
class redirected_error {
 public:
  explicit redirected_error(int fd) : original_(::dup(STDERR_FILENO)) { ::dup2(fd, STDERR_FILENO); }
  ~redirected_error() { ::dup2(original_.get(), STDERR_FILENO); }
  redirected_error(const redirected_error&) = delete;
  redirected_error& operator=(const redirected_error&) = delete;

 private:
  file_descriptor original_;
};

std::string read_all(int fd) {
  std::string all;
  std::byte part[1000];
  for (;;) {
    const auto got = read(fd, part);
    if (!got || *got == 0) return all;
    all.append(reinterpret_cast<const char*>(part), *got);
  }
}

std::string numbered_text(std::size_t size) {
  std::string text;
  for (int line = 0; text.size() < size; ++line) text += std::to_string(line) + '\n';
  return text;
}

TEST(StandardError, WritesEverythingInSpiteOfShortWritesAndSignals) {
  const counted_interrupts interrupts;
  auto pipe = make_pipe();
  ASSERT_TRUE(pipe);
  const std::string text = numbered_text(1 << 20);  // many times what a pipe holds
  std::string arrived;
  {
    const redirected_error redirected(pipe->write_end.get());
    EXPECT_FALSE(pipe->write_end.close());
    std::atomic<bool> written{false};
    std::thread writer([&] {
      write_error_text(text.data(), text.size());
      written = true;
      // Standard error keeps the pipe open, so its end has to be marked.
      write_error_text("\0", 1);
    });
    // The first signals hit a writer that is stuck in a full pipe, because nobody reads yet.
    counted_interrupts::interrupt_until(writer, [] { return counted_interrupts::count() >= 20; });
    std::thread reader([&] {
      while (arrived.empty() || arrived.back() != '\0') {
        std::byte part[1000];
        const auto got = read(pipe->read_end.get(), part);
        if (!got || *got == 0) return;
        arrived.append(reinterpret_cast<const char*>(part), *got);
      }
    });
    counted_interrupts::interrupt_until(writer, [&] { return written.load(); });
    writer.join();
    reader.join();
  }
  EXPECT_EQ(arrived.size(), text.size() + 1);
  EXPECT_TRUE(arrived.starts_with(text));
}

// A reader that is slow gets everything, also from one who does not block.
TEST(StandardError, WaitsForRoomWhereItDoesNotBlock) {
  auto pipe = make_pipe();
  ASSERT_TRUE(pipe);
  ASSERT_FALSE(set_nonblocking(pipe->write_end.get()));
  const std::string text = numbered_text(1 << 19);
  std::string arrived;
  {
    const redirected_error redirected(pipe->write_end.get());
    EXPECT_FALSE(pipe->write_end.close());
    std::thread writer([&] {
      write_error_text(text.data(), text.size());
      write_error_text("\0", 1);
    });
    while (arrived.empty() || arrived.back() != '\0') {
      ::usleep(2000);
      std::byte part[20'000];
      const auto got = read(pipe->read_end.get(), part);
      ASSERT_TRUE(got);
      arrived.append(reinterpret_cast<const char*>(part), *got);
    }
    writer.join();
  }
  EXPECT_EQ(arrived, text + '\0');
}

// The first one waits; those after it do not, until somebody reads again.
TEST(StandardError, GivesUpOnAReaderThatSleepsAndComesBackToIt) {
  auto pipe = make_pipe();
  ASSERT_TRUE(pipe);
  ASSERT_FALSE(set_nonblocking(pipe->write_end.get()));
  const redirected_error redirected(pipe->write_end.get());
  const std::string text = numbered_text(1 << 17);
  write_error_text(text.data(), text.size());
  const nanos start = now();
  for (int i = 0; i < 100; ++i) write_error_text(text.data(), text.size());
  EXPECT_LT(now() - start, 60'000'000'000) << "a hundred times what the first has waited";
  std::vector<std::byte> all(1 << 20);
  ASSERT_TRUE(read(pipe->read_end.get(), all));
  write_error_text("again", 5);
  const auto got = read(pipe->read_end.get(), all);
  ASSERT_TRUE(got);
  EXPECT_EQ(std::string_view(reinterpret_cast<const char*>(all.data()), *got), "again");
}

TEST(StandardError, IsWherePrintersPrint) {
  auto pipe = make_pipe();
  ASSERT_TRUE(pipe);
  {
    const redirected_error redirected(pipe->write_end.get());
    printer() << "fatal: " << 42 << '\n';
  }
  EXPECT_FALSE(pipe->write_end.close());
  EXPECT_EQ(read_all(pipe->read_end.get()), "fatal: 42\n");
}

TEST(StandardError, GivesUpOnErrorsAndKeepsErrno) {
  const auto full = open_file("/dev/full", O_WRONLY);
  ASSERT_TRUE(full);
  int kept = 0;
  {
    const redirected_error redirected(full->get());
    errno = EXDEV;
    write_error_text("nobody reads this", 17);
    kept = errno;
  }
  EXPECT_EQ(kept, EXDEV);
}

TEST(StandardError, WritesNothingForNoText) {
  auto pipe = make_pipe();
  ASSERT_TRUE(pipe);
  {
    const redirected_error redirected(pipe->write_end.get());
    write_error_text(nullptr, 0);
  }
  EXPECT_FALSE(pipe->write_end.close());
  EXPECT_EQ(read_all(pipe->read_end.get()), "");
}

}  // namespace
}  // namespace magpie::rt::os
