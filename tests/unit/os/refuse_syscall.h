// Kernels and sandboxes that refuse a system call, for the tests of what we do then.
#pragma once

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>

#include <cstddef>
#include <thread>

namespace magpie::rt::os {

// From now on the system call fails with `code` in this thread only. False if the kernel cannot
// filter.
inline bool refuse_in_this_thread(unsigned system_call, unsigned code) {
  sock_filter program[] = {
      {BPF_LD | BPF_W | BPF_ABS, 0, 0, offsetof(seccomp_data, nr)},
      {BPF_JMP | BPF_JEQ | BPF_K, 0, 1, system_call},
      {BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ERRNO | code},
      {BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ALLOW},
  };
  const sock_fprog filter{.len = 4, .filter = program};
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) == 0;
}

// Runs `body` in a thread of its own that is refused the system call. False, without having run
// it, if the kernel cannot filter.
template <class Body>
bool run_refused(unsigned system_call, unsigned code, Body body) {
  bool filtered = false;
  std::thread([&] {
    filtered = refuse_in_this_thread(system_call, code);
    if (filtered) body();
  }).join();
  return filtered;
}

}  // namespace magpie::rt::os
