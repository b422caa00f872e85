#include "os/patient_writer.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdlib>
#include <string>
#include <thread>

namespace magpie::rt::os {
namespace {

constexpr nanos k_short = 20'000'000;

std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text));
}

bool blocks(int fd) { return (::fcntl(fd, F_GETFL) & O_NONBLOCK) == 0; }

std::string read_at_least(int fd, std::size_t size) {
  std::string all;
  std::byte part[5000];
  while (all.size() < size) {
    const auto got = read(fd, part);
    if (!got || *got == 0) break;
    all.append(reinterpret_cast<const char*>(part), *got);
  }
  return all;
}

void expect_gives_up(int to, int from) {
  const std::string text(1 << 20, 'x');  // more than any of them holds
  patient_writer writer(to, k_short);
  EXPECT_FALSE(writer.write(bytes_of(text)));
  EXPECT_FALSE(writer.write(bytes_of("more"))) << "once is enough";
  EXPECT_TRUE(blocks(to)) << "others have it, too";
  EXPECT_FALSE(read_at_least(from, 1).empty()) << "as much as there is room for";
}

TEST(PatientWriter, GivesUpOnAPipeThatNobodyReads) {
  auto pipe = make_pipe();
  ASSERT_TRUE(pipe);
  expect_gives_up(pipe->write_end.get(), pipe->read_end.get());
}

TEST(PatientWriter, GivesUpOnASocketThatNobodyReads) {
  int ends[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
  const file_descriptor to(ends[0]), from(ends[1]);
  expect_gives_up(to.get(), from.get());
}

TEST(PatientWriter, GivesUpOnATerminalThatNobodyReads) {
  const file_descriptor master(::posix_openpt(O_RDWR | O_NOCTTY));
  if (!master || ::grantpt(master.get()) != 0 || ::unlockpt(master.get()) != 0) {
    GTEST_SKIP() << "no terminals here";
  }
  const auto slave = open_file(::ptsname(master.get()), O_RDWR | O_NOCTTY);
  ASSERT_TRUE(slave);
  expect_gives_up(slave->get(), master.get());
}

TEST(PatientWriter, WritesEverythingToWhoReadsSlowly) {
  auto pipe = make_pipe();
  ASSERT_TRUE(pipe);
  std::string text;
  for (int i = 0; text.size() < 1 << 19; ++i) text += std::to_string(i) + '\n';
  std::string arrived;
  std::thread reader([&] { arrived = read_at_least(pipe->read_end.get(), text.size()); });
  patient_writer writer(pipe->write_end.get(), 60'000'000'000);
  EXPECT_TRUE(writer.write(bytes_of(text)));
  reader.join();
  EXPECT_EQ(arrived, text);
}

// A file that is opened once more would be written from its start.
TEST(PatientWriter, GoesOnWhereAFileEnds) {
  char path[] = "/tmp/magpie_patient_XXXXXX";
  const file_descriptor file(::mkstemp(path));
  ASSERT_TRUE(file);
  ::unlink(path);
  ASSERT_TRUE(write(file.get(), bytes_of("first ")));
  EXPECT_TRUE(patient_writer(file.get(), k_short).write(bytes_of("second ")));
  ASSERT_TRUE(write(file.get(), bytes_of("third")));
  char text[64] = {};
  ASSERT_GT(::pread(file.get(), text, sizeof text, 0), 0);
  EXPECT_STREQ(text, "first second third");
}

}  // namespace
}  // namespace magpie::rt::os
