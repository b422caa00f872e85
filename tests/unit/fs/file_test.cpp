#include <magpie/file.h>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <string>
#include <vector>

#include <magpie/magpie.h>

#include "support/loopback.h"
#include "support/process_counts.h"

namespace magpie {
namespace {

using namespace std::chrono_literals;
using rt::testing::read_all;
using rt::testing::read_some;

class File : public ::testing::Test {
 protected:
  File() { std::filesystem::create_directory(folder_); }
  ~File() override { std::filesystem::remove_all(folder_); }
  std::filesystem::path at(const char* name) const { return folder_ / name; }

  const std::filesystem::path folder_ =
      std::filesystem::temp_directory_path() / ("magpie-file-" + std::to_string(getpid()));
};

constexpr open_mode k_fresh = open_mode::read | open_mode::write | open_mode::create;

TEST_F(File, ReadsWhatWasWritten) {
  run([&] {
    auto out = file::open(at("a"), open_mode::write | open_mode::create);
    EXPECT_EQ(out.write("hello "), 6U);
    EXPECT_EQ(out.write("world", 5), 5U);
    out.sync();
    out.close();
    auto in = file::open(at("a"));
    EXPECT_EQ(in.size(), 11U);
    EXPECT_EQ(read_some(in, 5), "hello");
    EXPECT_EQ(read_all(in), " world");
  });
}

TEST_F(File, WorksOnPlainThreads) {
  auto f = file::open(at("a"), k_fresh);
  f.write("x");
  char byte = 0;
  EXPECT_EQ(f.read_at(&byte, 1, 0), 1U);
  EXPECT_EQ(byte, 'x');
}

TEST_F(File, PositionsOfTheCallerLeaveTheFilesOwn) {
  run([&] {
    auto f = file::open(at("a"), k_fresh);
    f.write_at("world", 5, 6);
    f.write_at("hello ", 6, 0);
    std::string got(20, '\0');
    got.resize(f.read_at(got.data(), got.size(), 3));
    EXPECT_EQ(got, "lo world");  // cut at the end
    EXPECT_EQ(f.read_at(got.data(), 1, 100), 0U);
    EXPECT_EQ(read_all(f), "hello world");
  });
}

TEST_F(File, ModesMeanWhatTheySay) {
  run([&] {
    std::error_code ec;
    EXPECT_FALSE(file::open(at("a"), ec));
    EXPECT_EQ(ec, std::errc::no_such_file_or_directory);
    try {
      file::open(at("a"));
      FAIL();
    } catch (const std::system_error& e) {
      EXPECT_EQ(std::string(e.what()), "open " + at("a").string() + ": No such file or directory");
    }
    file::open(at("a"), open_mode::write | open_mode::create, 0640).write("12345");
    struct stat status;
    ASSERT_EQ(stat(at("a").c_str(), &status), 0);
    EXPECT_EQ(status.st_mode & 0777 & ~0640U, 0U);
    EXPECT_FALSE(
        file::open(at("a"), open_mode::write | open_mode::create | open_mode::exclusive, ec));
    EXPECT_EQ(ec, std::errc::file_exists);
    file::open(at("a"), open_mode::append).write("6");
    auto f = file::open(at("a"), open_mode::read);
    EXPECT_EQ(read_all(f), "123456");
    f.write("x", ec);
    EXPECT_EQ(ec, std::errc::bad_file_descriptor);
    auto cut = file::open(at("a"), open_mode::write | open_mode::truncate);
    EXPECT_EQ(cut.size(), 0U);
    cut.truncate(1000);
    EXPECT_EQ(cut.size(), 1000U);
    cut.read_at(nullptr, 0, 0, ec);
  });
}

TEST_F(File, WhatIsClosedSaysSo) {
  run([&] {
    file none;
    std::error_code ec;
    char byte = 0;
    EXPECT_FALSE(none);
    EXPECT_EQ(none.read(&byte, 1, ec), 0U);
    EXPECT_EQ(ec, std::errc::operation_canceled);
    none.close();
    auto f = file::open(at("a"), k_fresh);
    EXPECT_TRUE(f);
    const int fd = f.native_handle();
    EXPECT_GE(fd, 0);
    f.close();
    f.close();
    EXPECT_EQ(fcntl(fd, F_GETFD), -1);
    EXPECT_EQ(f.native_handle(), -1);
    f.write("x", ec);
    EXPECT_EQ(ec, std::errc::operation_canceled);
    f.size(ec);
    EXPECT_EQ(ec, std::errc::operation_canceled);
    EXPECT_THROW(f.sync(), std::system_error);
    file other = file::open(at("a"), k_fresh);
    f = std::move(other);
    EXPECT_TRUE(f);
    EXPECT_FALSE(other);
  });
}

// The number must not be used again under somebody's hands.
TEST_F(File, CloseWaitsForThoseInside) {
  const std::size_t before = rt::testing::descriptor_count();
  run([&] {
    for (int i = 0; i < 200; ++i) {
      auto f = file::open(at("a"), k_fresh);
      wait_group all;
      for (int k = 0; k < 4; ++k) {
        all.go([&] {
          std::error_code ec;
          while (!ec) f.write_at("magpie", 6, 0, ec);
          EXPECT_EQ(ec, std::errc::operation_canceled);
        });
      }
      this_goroutine::yield();
      f.close();
      all.wait();
    }
  });
  EXPECT_EQ(rt::testing::descriptor_count(), before);
}

TEST_F(File, ManyAtATime) {
  run([&] {
    auto f = file::open(at("a"), k_fresh);
    constexpr int k_blocks = 500;
    wait_group all;
    for (int i = 0; i < k_blocks; ++i) {
      all.go([&, i] {
        const std::string block(100, static_cast<char>('a' + i % 26));
        f.write_at(block.data(), block.size(), static_cast<std::uint64_t>(i) * 100);
        std::string got(100, '\0');
        EXPECT_EQ(f.read_at(got.data(), 100, static_cast<std::uint64_t>(i) * 100), 100U);
        EXPECT_EQ(got, block);
      });
    }
    all.wait();
    EXPECT_EQ(f.size(), 100U * k_blocks);
  });
}

// One can wait for a pipe; that costs no thread, and close() ends it.
TEST_F(File, PipesAreWaitedForLikeSockets) {
  ASSERT_EQ(mkfifo(at("pipe").c_str(), 0600), 0);
  run([&] {
    auto both = file::open(at("pipe"), open_mode::read | open_mode::write);
    auto received = async([&] { return read_some(both); });
    this_goroutine::sleep_for(1ms);
    both.write("through");
    EXPECT_EQ(received.get(), "through");
    auto waiting = async([&] {
      char byte;
      std::error_code ec;
      both.read(&byte, 1, ec);
      return ec;
    });
    this_goroutine::sleep_for(1ms);
    both.close();
    EXPECT_EQ(waiting.get(), std::errc::operation_canceled);
  });
}

TEST_F(File, DevicesThatAreAlwaysReadyWork) {
  run([&] {
    auto zero = file::open("/dev/zero");
    EXPECT_EQ(read_some(zero, 3), std::string(3, '\0'));
    EXPECT_EQ(file::open("/dev/null", open_mode::write).write("gone"), 4U);
    std::error_code ec;
    auto full = file::open("/dev/full", open_mode::write);
    full.write("x", ec);
    EXPECT_EQ(ec, std::errc::no_space_on_device);
  });
}

}  // namespace
}  // namespace magpie
