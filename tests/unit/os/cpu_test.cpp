#include "os/cpu.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <limits>
#include <string>
#include <thread>

#include "refuse_syscall.h"

namespace magpie::rt::os {

void PrintTo(const cpu_quota& quota, std::ostream* out) {
  *out << quota.quota_microseconds << '/' << quota.period_microseconds;
}

namespace {

using optional_quota = std::optional<cpu_quota>;
constexpr std::nullopt_t unlimited = std::nullopt;

optional_quota quota(std::int64_t quota_microseconds, std::int64_t period_microseconds) {
  return cpu_quota{quota_microseconds, period_microseconds};
}

// A file tree of its own, with a /proc/self and the cgroup files that a test puts there.
class Cpu : public testing::Test {
 protected:
  void SetUp() override {
    char path[] = "/tmp/magpie_cpu_test_XXXXXX";
    ASSERT_NE(mkdtemp(path), nullptr);
    root_ = path;
  }
  void TearDown() override { std::filesystem::remove_all(root_); }

  void file(const std::string& path, const std::string& content) {
    const std::filesystem::path full = root_ + path;
    std::filesystem::create_directories(full.parent_path());
    std::ofstream(full) << content;
  }
  void cgroup(const std::string& lines) { file("/proc/self/cgroup", lines); }
  void mountinfo(const std::string& lines) { file("/proc/self/mountinfo", lines); }
  void v1_quota(const std::string& directory, const std::string& quota_text,
                const std::string& period_text = "100000\n") {
    file(directory + "/cpu.cfs_quota_us", quota_text);
    file(directory + "/cpu.cfs_period_us", period_text);
  }

  // The usual v2 host: everything below one mount.
  void v2_host(const std::string& place) {
    cgroup("0::" + place + "\n");
    mountinfo(k_root_line + k_v2_line);
  }
  void v1_host(const std::string& place) {
    cgroup("5:memory:/elsewhere\n4:cpu,cpuacct:" + place + "\n1:name=systemd:/init\n");
    mountinfo(k_root_line + k_v1_memory_line + k_v1_line);
  }

  cpu_quota_files files() const { return cpu_quota_files(root_.c_str()); }
  optional_quota read() const { return files().read(); }

  const std::string k_root_line = "22 1 254:1 / / rw,relatime shared:1 - ext4 /dev/vda1 rw\n";
  const std::string k_v2_line =
      "30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate\n";
  const std::string k_v1_line =
      "33 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw,relatime shared:11 - cgroup cgroup "
      "rw,cpu,cpuacct\n";
  const std::string k_v1_memory_line =
      "32 31 0:28 / /sys/fs/cgroup/memory rw,relatime shared:10 - cgroup cgroup rw,memory\n";
  const std::string k_v1_directory = "/sys/fs/cgroup/cpu,cpuacct";

  std::string root_;
};

TEST_F(Cpu, NoFilesAtAllMeansNoQuota) {
  EXPECT_FALSE(files().found());
  EXPECT_EQ(read(), unlimited);
}

TEST_F(Cpu, NoMountMeansNoQuota) {
  cgroup("0::/app\n");
  mountinfo(k_root_line);
  EXPECT_FALSE(files().found());
}

TEST_F(Cpu, NoMembershipMeansNoQuota) {
  mountinfo(k_v2_line + k_v1_line);
  EXPECT_FALSE(files().found());
}

// ---- version 2 ----

TEST_F(Cpu, V2QuotaOfTheOwnCgroup) {
  v2_host("/app.slice/web");
  file("/sys/fs/cgroup/app.slice/web/cpu.max", "250000 100000\n");
  EXPECT_EQ(read(), quota(250000, 100000));
}

TEST_F(Cpu, V2QuotaAtTheRootOfTheMount) {
  v2_host("/");
  file("/sys/fs/cgroup/cpu.max", "50000 100000\n");
  EXPECT_EQ(read(), quota(50000, 100000));
}

TEST_F(Cpu, V2MaxMeansNoQuota) {
  v2_host("/app");
  file("/sys/fs/cgroup/app/cpu.max", "max 100000\n");
  EXPECT_TRUE(files().found());
  EXPECT_EQ(read(), unlimited);
}

TEST_F(Cpu, TightestAncestorWins) {
  v2_host("/a/b/c");
  file("/sys/fs/cgroup/a/cpu.max", "150000 100000\n");
  file("/sys/fs/cgroup/a/b/cpu.max", "max 100000\n");
  file("/sys/fs/cgroup/a/b/c/cpu.max", "400000 100000\n");
  EXPECT_EQ(read(), quota(150000, 100000));
}

TEST_F(Cpu, LooserAncestorsDoNotMatter) {
  v2_host("/a/b");
  file("/sys/fs/cgroup/a/cpu.max", "800000 100000\n");
  file("/sys/fs/cgroup/a/b/cpu.max", "300000 100000\n");
  EXPECT_EQ(read(), quota(300000, 100000));
}

TEST_F(Cpu, TightnessIsTheRatioNotTheQuota) {
  v2_host("/a/b");
  file("/sys/fs/cgroup/a/cpu.max", "300000 100000\n");
  file("/sys/fs/cgroup/a/b/cpu.max", "20000 5000\n");  // 4 CPUs, although a smaller number
  EXPECT_EQ(read(), quota(300000, 100000));
}

TEST_F(Cpu, TightestIsFoundThroughAHundredLevels) {
  std::string place;
  for (int level = 0; level < 100; ++level) {
    place += "/level" + std::to_string(level);
    const int microseconds = level == 37 ? 123456 : 900000;
    file("/sys/fs/cgroup" + place + "/cpu.max", std::to_string(microseconds) + " 100000\n");
  }
  v2_host(place);
  EXPECT_EQ(read(), quota(123456, 100000));
}

TEST_F(Cpu, QuotasAboveTheMountAreNotReached) {
  v2_host("/a");
  file("/sys/fs/cpu.max", "1000 100000\n");
  file("/sys/fs/cgroup/a/cpu.max", "300000 100000\n");
  EXPECT_EQ(read(), quota(300000, 100000));
}

TEST_F(Cpu, DeletedCgroupStillHasAncestors) {
  v2_host("/a/gone (deleted)");
  file("/sys/fs/cgroup/a/cpu.max", "300000 100000\n");
  EXPECT_EQ(read(), quota(300000, 100000));
}

TEST_F(Cpu, PlacesMayContainColonsAndSpaces) {
  v2_host("/system.slice/a:b c");
  file("/sys/fs/cgroup/system.slice/a:b c/cpu.max", "300000 100000\n");
  EXPECT_EQ(read(), quota(300000, 100000));
}

TEST_F(Cpu, QuotaIsReadAnewEveryTime) {
  v2_host("/app");
  const cpu_quota_files found = files();
  EXPECT_EQ(found.read(), unlimited);
  file("/sys/fs/cgroup/app/cpu.max", "300000 100000\n");
  EXPECT_EQ(found.read(), quota(300000, 100000));
  file("/sys/fs/cgroup/app/cpu.max", "max 100000\n");
  EXPECT_EQ(found.read(), unlimited);
}

TEST_F(Cpu, MountPointMayBeTheRootDirectory) {
  cgroup("0::/a\n");
  mountinfo("30 23 0:26 / / rw - cgroup2 cgroup2 rw\n");
  file("/a/cpu.max", "300000 100000\n");
  file("/cpu.max", "200000 100000\n");
  EXPECT_EQ(read(), quota(200000, 100000));
}

// ---- version 1 ----

TEST_F(Cpu, V1QuotaOfTheOwnCgroup) {
  v1_host("/docker/ab12");
  v1_quota(k_v1_directory + "/docker/ab12", "250000\n");
  EXPECT_EQ(read(), quota(250000, 100000));
}

TEST_F(Cpu, V1MinusOneMeansNoQuota) {
  v1_host("/");
  v1_quota(k_v1_directory, "-1\n");
  EXPECT_TRUE(files().found());
  EXPECT_EQ(read(), unlimited);
}

TEST_F(Cpu, V1TightestAncestorWins) {
  v1_host("/a/b");
  v1_quota(k_v1_directory, "-1\n");
  v1_quota(k_v1_directory + "/a", "150000\n");
  v1_quota(k_v1_directory + "/a/b", "40000\n", "10000\n");
  EXPECT_EQ(read(), quota(150000, 100000));
}

TEST_F(Cpu, V1QuotaWithoutPeriodIsNoQuota) {
  v1_host("/");
  file(k_v1_directory + "/cpu.cfs_quota_us", "250000\n");
  EXPECT_EQ(read(), unlimited);
}

TEST_F(Cpu, ControllersAreComparedAsWholeWords) {
  cgroup("3:cpuset:/set\n2:cpuacct:/acct\n7:name=cpu:/named\n");
  mountinfo(
      "33 31 0:29 / /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset\n"
      "34 31 0:30 / /sys/fs/cgroup/cpuacct rw - cgroup cgroup rw,cpuacct\n");
  EXPECT_FALSE(files().found());
}

TEST_F(Cpu, ControllersMayBeMountedTogetherInAnyOrder) {
  cgroup("4:cpuacct,cpu:/a\n");
  mountinfo("33 31 0:29 / /cg rw,relatime - cgroup cgroup rw,cpuacct,cpu\n");
  v1_quota("/cg/a", "250000\n");
  EXPECT_EQ(read(), quota(250000, 100000));
}

// ---- both ----

TEST_F(Cpu, HybridHostHasTheQuotaInV1) {
  cgroup("2:cpuacct:/\n1:cpu:/app\n0::/unified\n");
  const std::string v2 = "41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n";
  const std::string v1 = "32 31 0:29 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n";
  v1_quota("/sys/fs/cgroup/cpu/app", "300000\n");
  file("/sys/fs/cgroup/unified/unified/cpu.max", "200000 100000\n");
  for (const std::string& mounts : {v1 + v2, v2 + v1}) {
    mountinfo(k_root_line + mounts);
    EXPECT_EQ(read(), quota(300000, 100000)) << mounts;
  }
}

TEST_F(Cpu, HybridHostMayHaveTheQuotaInV2) {
  cgroup("5:memory:/\n0::/app\n");
  mountinfo(k_v1_memory_line + "41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n" +
            k_v1_line);
  file("/sys/fs/cgroup/unified/app/cpu.max", "200000 100000\n");
  EXPECT_EQ(read(), quota(200000, 100000));
}

// ---- mounts ----

TEST_F(Cpu, ContainerMountShowsOnlyItsOwnPart) {
  cgroup("4:cpu,cpuacct:/docker/ab12\n");
  mountinfo("33 31 0:29 /docker/ab12 /sys/fs/cgroup/cpu ro - cgroup cgroup rw,cpu,cpuacct\n");
  v1_quota("/sys/fs/cgroup/cpu", "250000\n");
  EXPECT_EQ(read(), quota(250000, 100000));
}

TEST_F(Cpu, CgroupsWithinAContainerAreRelativeToItsMount) {
  cgroup("0::/kubepods/pod1/ctr/inner/leaf\n");
  mountinfo("30 23 0:26 /kubepods/pod1/ctr /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n");
  file("/sys/fs/cgroup/inner/leaf/cpu.max", "500000 100000\n");
  file("/sys/fs/cgroup/inner/cpu.max", "max 100000\n");
  file("/sys/fs/cgroup/cpu.max", "350000 100000\n");
  EXPECT_EQ(read(), quota(350000, 100000));
}

TEST_F(Cpu, MountOfSomebodyElsesPartIsNotUsed) {
  cgroup("0::/docker/ab12\n");
  mountinfo("30 23 0:26 /docker/ab /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n");
  file("/sys/fs/cgroup/cpu.max", "100000 100000\n");
  EXPECT_FALSE(files().found()) << "a prefix of the name is no ancestor";
}

TEST_F(Cpu, PlaceOutsideOfTheNamespaceIsNotUsed) {
  cgroup("0::/../sibling\n");
  mountinfo(k_v2_line);
  file("/sys/fs/cgroup/cpu.max", "100000 100000\n");
  file("/sys/fs/sibling/cpu.max", "100000 100000\n");
  EXPECT_FALSE(files().found());
}

TEST_F(Cpu, MountFromOutsideOfTheNamespaceIsUsedWhereItShowsOurPlace) {
  cgroup("0::/../sibling/leaf\n");
  mountinfo("30 23 0:26 /../sibling /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n");
  file("/sys/fs/cgroup/leaf/cpu.max", "300000 100000\n");
  EXPECT_EQ(read(), quota(300000, 100000));
}

TEST_F(Cpu, NamesThatOnlyBeginWithDotsAreOrdinary) {
  v2_host("/..a");
  file("/sys/fs/cgroup/..a/cpu.max", "300000 100000\n");
  EXPECT_EQ(read(), quota(300000, 100000));
}

TEST_F(Cpu, OfSeveralMountsTheOneWithMostAncestorsIsUsed) {
  cgroup("0::/a/b\n");
  const std::string part = "29 23 0:26 /a/b /part rw - cgroup2 cgroup2 rw\n";
  file("/part/cpu.max", "500000 100000\n");
  file("/sys/fs/cgroup/a/b/cpu.max", "500000 100000\n");
  file("/sys/fs/cgroup/a/cpu.max", "200000 100000\n");
  for (const std::string& mounts : {part + k_v2_line, k_v2_line + part}) {
    mountinfo(mounts);
    EXPECT_EQ(read(), quota(200000, 100000)) << mounts;
  }
}

TEST_F(Cpu, EscapedMountsAreFound) {
  cgroup("0::/my pod/back\\slash/leaf\n");
  mountinfo("30 23 0:26 /my\\040pod/back\\134slash /mnt/a\\040b\\011c rw - cgroup2 cgroup2 rw\n");
  file("/mnt/a b\tc/leaf/cpu.max", "300000 100000\n");
  EXPECT_EQ(read(), quota(300000, 100000));
}

TEST_F(Cpu, BrokenEscapesAreTakenLiterally) {
  cgroup("0::/\n");
  mountinfo("30 23 0:26 / /mnt/a\\09\\4 rw - cgroup2 cgroup2 rw\n");
  file("/mnt/a\\09\\4/cpu.max", "300000 100000\n");
  EXPECT_EQ(read(), quota(300000, 100000));
}

TEST_F(Cpu, OptionalFieldsOfAMountMayBeManyOrNone) {
  cgroup("0::/\n");
  file("/cg/cpu.max", "300000 100000\n");
  for (const char* tags : {"", "shared:1 ", "shared:1 master:2 propagate_from:3 unbindable "}) {
    mountinfo("30 23 0:26 / /cg rw " + std::string(tags) + "- cgroup2 cgroup2 rw\n");
    EXPECT_EQ(read(), quota(300000, 100000)) << tags;
  }
}

// ---- sizes and garbage ----

TEST_F(Cpu, HugeMountinfoIsReadToItsEnd) {
  std::string lines;
  for (int i = 0; i < 20'000; ++i) {
    lines += std::to_string(i + 100) + " 22 0:99 / /var/lib/mounts/" + std::to_string(i) +
             " rw shared:5 - tmpfs tmpfs rw\n";
  }
  cgroup("0::/app\n");
  mountinfo(lines + k_v2_line);
  file("/sys/fs/cgroup/app/cpu.max", "300000 100000\n");
  EXPECT_EQ(read(), quota(300000, 100000));
}

TEST_F(Cpu, LinesOfAnyLengthAreSkippedAsAWhole) {
  cgroup("0::/app\n");
  file("/sys/fs/cgroup/app/cpu.max", "300000 100000\n");
  const std::string head = "50 22 0:99 / /overlay rw - overlay overlay rw,lowerdir=";
  for (std::size_t size = 4080; size < 4110; ++size) {
    mountinfo(head + std::string(size - head.size(), 'x') + "\n" + k_v2_line);
    EXPECT_EQ(read(), quota(300000, 100000)) << "after a line of " << size;
  }
  mountinfo(head + std::string(1'000'000, 'x') + "\n" + k_v2_line);
  EXPECT_EQ(read(), quota(300000, 100000));
}

TEST_F(Cpu, EndOfALongLineIsNotTakenForALine) {
  cgroup("0::/app\n");
  file("/evil/app/cpu.max", "1000 100000\n");
  const std::string evil = "30 23 0:26 / /evil rw - cgroup2 cgroup2 rw";
  for (std::size_t size = 4090; size < 4100; ++size) {
    mountinfo(std::string(size, 'x') + evil + "\n");
    EXPECT_FALSE(files().found()) << size;
    mountinfo(std::string(size, 'x') + evil);
    EXPECT_FALSE(files().found()) << size << ", without a newline at the end";
  }
}

TEST_F(Cpu, LastLineNeedsNoNewline) {
  cgroup("1:cpu:/\n0::/app");
  mountinfo(k_root_line + "30 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw");
  file("/sys/fs/cgroup/app/cpu.max", "300000 100000");
  EXPECT_EQ(read(), quota(300000, 100000));
}

TEST_F(Cpu, PathsThatDoNotFitAreNotCutShort) {
  file("/sys/fs/cgroup/cpu.max", "300000 100000\n");
  for (const std::size_t size : {4050U, 4070U, 4085U, 4095U, 4096U, 4097U, 10'000U}) {
    v2_host("/" + std::string(size, 'x'));
    EXPECT_FALSE(files().found()) << size;
  }
}

TEST_F(Cpu, BoundedPathForgetsWhatDoesNotFit) {
  bounded_path path;
  path << std::string(4095, 'x');
  EXPECT_TRUE(path.fits());
  EXPECT_EQ(path.size(), 4095u);
  path << "";
  EXPECT_TRUE(path.fits());
  path << "y";
  EXPECT_FALSE(path.fits());
  path << "y";
  EXPECT_FALSE(path.fits()) << "too long stays too long";
  EXPECT_EQ(path.view(), "");
  EXPECT_STREQ(path.c_str(), "");
}

TEST_F(Cpu, GarbageInQuotaFilesIsNoQuota) {
  v2_host("/");
  for (const char* text : {"",
                           "\n",
                           " ",
                           "max",
                           "max\n",
                           "max max\n",
                           "100000\n",
                           "100000 \n",
                           " 100000 100000\n",
                           "100000 0\n",
                           "0 100000\n",
                           "-5 100000\n",
                           "100000 -100000\n",
                           "1e5 100000\n",
                           "100000x 100000\n",
                           "100000 100000x\n",
                           "100000 100000 7\n",
                           "0x10 100000\n",
                           "99999999999999999999 100000\n",
                           "100000 99999999999999999999\n",
                           "\xff\xfe\x80 \x01\n"}) {
    file("/sys/fs/cgroup/cpu.max", text);
    EXPECT_EQ(read(), unlimited) << '"' << text << '"';
  }
  file("/sys/fs/cgroup/cpu.max", std::string(1000, '1') + " 1\n");
  EXPECT_EQ(read(), unlimited);
  file("/sys/fs/cgroup/cpu.max", "100000 " + std::string(120, '0') + "100000\n");
  EXPECT_EQ(read(), unlimited) << "its first 128 bytes alone would be a quota";
  file("/sys/fs/cgroup/cpu.max", std::string(1000, '\0'));
  EXPECT_EQ(read(), unlimited);
}

TEST_F(Cpu, DirectoryInsteadOfAFileIsNoQuota) {
  v2_host("/");
  std::filesystem::create_directories(root_ + "/sys/fs/cgroup/cpu.max");
  EXPECT_EQ(read(), unlimited);
  std::filesystem::remove(root_ + "/proc/self/mountinfo");
  std::filesystem::create_directories(root_ + "/proc/self/mountinfo");
  EXPECT_FALSE(files().found());
}

TEST_F(Cpu, GarbageInProcFilesIsNoCgroup) {
  for (const char* text :
       {"", "\n\n\n", ":", "::", "0::", "0:", "0::relative\n", "x:cpu\n", "::::\n", "\\\n",
        "- - -\n", "1 2 3 4 5 6 - cgroup2", " - cgroup2 x y"}) {
    cgroup(text);
    mountinfo(k_v2_line);
    EXPECT_FALSE(files().found()) << '"' << text << '"';
    cgroup("0::/\n");
    mountinfo(text);
    EXPECT_EQ(read(), unlimited) << '"' << text << '"';
  }
}

// Every text that is a valid file cut short or with one byte changed is read without harm.
TEST_F(Cpu, DamagedProcFilesDoNoHarm) {
  const std::string valid = "30 23 0:26 /a\\040b /sys\\134 rw s:1 - cgroup2 c rw\n";
  cgroup("0::/a b/c\n");
  for (std::size_t i = 0; i < valid.size(); ++i) {
    mountinfo(valid.substr(0, i));
    (void)read();
    for (const char damage : {'\0', ' ', '\\', '-', '\n', '/'}) {
      std::string damaged = valid;
      damaged[i] = damage;
      mountinfo(damaged);
      (void)read();
    }
  }
}

// ---- how many CPUs ----

TEST_F(Cpu, QuotaIsRoundedUp) {
  EXPECT_EQ(usable_cpus(64, quota(250000, 100000)), 3);
  EXPECT_EQ(usable_cpus(64, quota(300000, 100000)), 3);
  EXPECT_EQ(usable_cpus(64, quota(300001, 100000)), 4);
}

TEST_F(Cpu, QuotaBelowTwoGivesTwo) {
  EXPECT_EQ(usable_cpus(64, quota(1000, 100000)), 2);
  EXPECT_EQ(usable_cpus(64, quota(100000, 100000)), 2);
  EXPECT_EQ(usable_cpus(64, quota(200000, 100000)), 2);
}

TEST_F(Cpu, NeverMoreThanTheAffinityAllows) {
  EXPECT_EQ(usable_cpus(1, quota(50000, 100000)), 1);
  EXPECT_EQ(usable_cpus(4, quota(800000, 100000)), 4);
  EXPECT_EQ(usable_cpus(4, unlimited), 4);
}

TEST_F(Cpu, LargestNumbersDoNotOverflow) {
  constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max();
  EXPECT_EQ(usable_cpus(8, quota(most, 1)), 8);
  EXPECT_EQ(usable_cpus(8, quota(most, most)), 2);
  EXPECT_EQ(usable_cpus(8, quota(1, most)), 2);
  EXPECT_TRUE((cpu_quota{most - 1, most}.tighter_than({most, most})));
  EXPECT_FALSE((cpu_quota{most, most}.tighter_than({1, 1})));
}

// Moves the calling thread to the first CPU of its mask. The mask is as large as any kernel's.
void pin_to_one_cpu() {
  unsigned long mask[1024] = {};
  ASSERT_GT(syscall(SYS_sched_getaffinity, 0, sizeof mask, mask), 0);
  bool found = false;
  for (unsigned long& word : mask) {
    word = found ? 0 : word & (~word + 1);
    found = found || word != 0;
  }
  ASSERT_EQ(syscall(SYS_sched_setaffinity, 0, sizeof mask, mask), 0);
}

TEST_F(Cpu, AffinityIsThatOfTheCallingThread) {
  const int before = affinity_count();
  EXPECT_GE(before, 1);
  EXPECT_LE(before, sysconf(_SC_NPROCESSORS_CONF));
  int pinned = 0;
  int inherited = 0;
  int usable = 0;
  std::thread([&] {
    pin_to_one_cpu();
    pinned = affinity_count();
    usable = usable_cpus();
    std::thread([&] { inherited = affinity_count(); }).join();
  }).join();
  EXPECT_EQ(pinned, 1);
  EXPECT_EQ(inherited, 1);
  EXPECT_EQ(usable, 1);
  EXPECT_EQ(affinity_count(), before);
}

TEST_F(Cpu, RefusedAffinityCountsAsOneCpu) {
  int count = 0;
  if (!run_refused(SYS_sched_getaffinity, EPERM, [&] { count = affinity_count(); })) {
    GTEST_SKIP() << "no seccomp filters here to refuse sched_getaffinity with";
  }
  EXPECT_EQ(count, 1);
}

TEST_F(Cpu, ThisMachineHasSomeCpus) {
  EXPECT_GE(usable_cpus(), 1);
  EXPECT_LE(usable_cpus(), affinity_count());
  EXPECT_EQ(usable_cpus(cpu_quota_files()), usable_cpus());
}

}  // namespace
}  // namespace magpie::rt::os
