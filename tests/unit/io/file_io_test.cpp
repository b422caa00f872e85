#include "io/file_io.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <string>
#include <vector>

#include <magpie/magpie.h>

#include "poll/file_ring.h"
#include "support/process_counts.h"

namespace magpie::rt {
namespace {

bool kernel_has_rings() {
  static const bool has = [] {
    file_ring* const ring = file_ring::create();
    if (ring != nullptr) ring->destroy();
    return ring != nullptr;
  }();
  return has;
}

// Not in /tmp, which may be memory: there nothing has to be waited for.
struct temporary_file {
  temporary_file() {
    char name[] = "./magpie_file_XXXXXX";
    fd = ::mkstemp(name);
    ::unlink(name);
  }
  ~temporary_file() { ::close(fd); }
  void fill(std::size_t blocks) const {
    for (std::size_t i = 0; i < blocks; ++i) {
      std::uint64_t block[512];
      for (auto& word : block) word = i;
      ASSERT_EQ(::pwrite(fd, block, sizeof block, static_cast<off_t>(i * sizeof block)),
                static_cast<ssize_t>(sizeof block));
    }
  }
  void forget_cache() const {
    ::fsync(fd);
    ::posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
  }
  int fd = -1;
};

struct way {
  io_backend io;
  int procs;
};

class FileIo : public ::testing::TestWithParam<way> {
 protected:
  void SetUp() override {
    if (GetParam().io == io_backend::io_uring && !kernel_has_rings()) {
      GTEST_SKIP() << "the kernel has no io_uring, or forbids it";
    }
    runtime_.emplace(config{.procs = GetParam().procs, .io = GetParam().io});
  }
  std::optional<runtime> runtime_;
};
INSTANTIATE_TEST_SUITE_P(Ways, FileIo,
                         ::testing::Values(way{io_backend::automatic, 1},
                                           way{io_backend::automatic, 4}, way{io_backend::epoll, 1},
                                           way{io_backend::epoll, 4}, way{io_backend::io_uring, 1},
                                           way{io_backend::io_uring, 4}));

TEST_P(FileIo, WhatIsWrittenIsRead) {
  const temporary_file f;
  runtime_->run([&] {
    const std::string text = "a line of text";
    const auto put = write_file(f.fd, std::as_bytes(std::span(text)), 100);
    ASSERT_TRUE(put);
    EXPECT_EQ(*put, text.size());
    EXPECT_EQ(sync_file(f.fd).code, 0);
    std::string back(100, '\0');
    const auto got = read_file(f.fd, std::as_writable_bytes(std::span(back)), 100);
    ASSERT_TRUE(got);
    EXPECT_EQ(back.substr(0, *got), text);
    const auto at_end = read_file(f.fd, std::as_writable_bytes(std::span(back)), 1000);
    ASSERT_TRUE(at_end);
    EXPECT_EQ(*at_end, 0u);
  });
}

TEST_P(FileIo, ThePositionMoves) {
  const temporary_file f;
  runtime_->run([&] {
    for (const std::string word : {"one", "two"}) {
      const auto put = write_file(f.fd, std::as_bytes(std::span(word)), -1);
      ASSERT_TRUE(put);
      ASSERT_EQ(*put, 3u);
    }
    ::lseek(f.fd, 0, SEEK_SET);
    std::string back(3, '\0');
    for (const std::string word : {"one", "two"}) {
      ASSERT_TRUE(read_file(f.fd, std::as_writable_bytes(std::span(back)), -1));
      EXPECT_EQ(back, word);
    }
  });
}

TEST_P(FileIo, ErrorsAreThoseOfTheCall) {
  runtime_->run([] {
    char c = 0;
    const auto memory = std::as_writable_bytes(std::span(&c, 1));
    EXPECT_EQ(read_file(-1, memory, 0).error().code, EBADF);
    EXPECT_EQ(write_file(-1, memory, 0).error().code, EBADF);
    EXPECT_EQ(sync_file(-1).code, EBADF);
    const int fd = ::open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    EXPECT_EQ(read_file(fd, memory, 0).error().code, EISDIR);
    ::close(fd);
  });
}

// From the disk and from the cache, by many at once.
TEST_P(FileIo, ManyReadersOfColdBlocks) {
  constexpr std::size_t k_blocks = 512;
  const temporary_file f;
  f.fill(k_blocks);
  runtime_->run([&] {
    std::atomic<int> wrong{0};
    for (int round = 0; round < 3; ++round) {
      f.forget_cache();
      wait_group all;
      for (std::size_t g = 0; g < 32; ++g) {
        all.go([&, g] {
          std::uint64_t block[512];
          for (std::size_t i = 0; i < 64; ++i) {
            const std::size_t which = (g * 131 + i * 37) % k_blocks;
            const auto got = read_file(f.fd, std::as_writable_bytes(std::span(block)),
                                       static_cast<std::int64_t>(which * sizeof block));
            if (!got || *got != sizeof block || block[0] != which || block[511] != which) ++wrong;
          }
        });
      }
      all.wait();
    }
    EXPECT_EQ(wrong, 0);
  });
}

TEST_P(FileIo, ManyWriters) {
  const temporary_file f;
  runtime_->run([&] {
    wait_group all;
    for (std::uint64_t g = 0; g < 64; ++g) {
      all.go([&, g] {
        std::vector<std::uint64_t> block(512, g);
        const auto put =
            write_file(f.fd, std::as_bytes(std::span(block)), static_cast<std::int64_t>(g * 4096));
        EXPECT_TRUE(put && *put == 4096);
        if (g % 8 == 0) {
          EXPECT_EQ(sync_file(f.fd).code, 0);
        }
      });
    }
    all.wait();
  });
  for (std::uint64_t g = 0; g < 64; ++g) {
    std::uint64_t word = 0;
    ASSERT_EQ(::pread(f.fd, &word, sizeof word, static_cast<off_t>(g * 4096 + 2048)), 8);
    EXPECT_EQ(word, g);
  }
}

TEST_P(FileIo, FromAPlainThread) {
  const temporary_file f;
  f.fill(1);
  std::uint64_t word = 1;
  const auto got = read_file(f.fd, std::as_writable_bytes(std::span(&word, 1)), 0);
  ASSERT_TRUE(got);
  EXPECT_EQ(word, 0u);
}

TEST(FileRing, NothingIsLeftBehind) {
  if (!kernel_has_rings()) GTEST_SKIP() << "the kernel has no io_uring, or forbids it";
  const temporary_file f;
  f.fill(4);
  const auto use_one = [&f] {
    runtime r({.procs = 2, .io = io_backend::io_uring});
    r.run([&f] {
      char c[100];
      EXPECT_TRUE(read_file(f.fd, std::as_writable_bytes(std::span(c)), 0));
    });
  };
  use_one();  // stacks and the like stay
  const std::size_t descriptors = testing::descriptor_count();
  const std::size_t mappings = testing::mapping_count();
  for (int i = 0; i < 20; ++i) use_one();
  EXPECT_EQ(testing::descriptor_count(), descriptors);
  EXPECT_LE(testing::mapping_count(), mappings + 8);
}

}  // namespace
}  // namespace magpie::rt
