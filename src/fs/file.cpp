// Files. Those of a disk are read and written through io/file_io.h; opening and the like is done
// inside blocking(): the thread may block, its P goes on. Pipes and terminals are waited for as
// sockets are.

#include <magpie/blocking.h>
#include <magpie/file.h>

#include <utility>

#include "fs/file_state.h"
#include "io/file_io.h"
#include "io/operation.h"
#include "io/shortage.h"
#include "os/file.h"

namespace magpie {

using namespace rt;

namespace detail {

file_state::file_state(os::file_descriptor fd, std::string of) : path(std::move(of)) {
  // Refused: some devices are always ready, as files are.
  if (os::is_waitable(fd.get()) && !os::set_nonblocking(fd.get()) &&
      descriptor::open(fd.get(), io) == 0) {
    (void)fd.release();  // it is the descriptor's now
  }
  plain = std::move(fd);
}

file_state::~file_state() {
  close();
  if (io != nullptr) io->destroy();
}

// Orders: see file_state.h.
auto file_state::begin() noexcept -> counter* {
  counter* const mine = &counters_[number_of_p() % k_counters];
  mine->uses.fetch_add(1, std::memory_order_seq_cst);        // as above
  if (!closed.load(std::memory_order_seq_cst)) return mine;  // as above
  end(mine);
  return nullptr;
}

void file_state::end(counter* mine) noexcept {
  mine->uses.fetch_sub(1, std::memory_order_seq_cst);  // as above
  if (closed.load(std::memory_order_seq_cst)) close_if_unused();
}

void file_state::close() noexcept {
  if (closed.exchange(true, std::memory_order_seq_cst)) return;  // the first closer only
  if (io != nullptr) return io->close();
  close_if_unused();
}

void file_state::close_if_unused() noexcept {
  for (const counter& c : counters_) {
    if (c.uses.load(std::memory_order_seq_cst) != 0) return;  // as above
  }
  // Those who came too late find 0 as well. relaxed: the counts order them.
  if (released.exchange(true, relaxed)) return;
  (void)blocking([&] { return plain.close(); });
  shortage::descriptor_closed();
}

}  // namespace detail

namespace {

using detail::file_state;

constexpr std::int64_t k_own_position = -1;

bool has(open_mode set, open_mode one) { return (set & one) == one; }

os::open_wishes wishes_of(open_mode mode) {
  return {.read = has(mode, open_mode::read),
          .write = has(mode, open_mode::write),
          .create = has(mode, open_mode::create),
          .truncate = has(mode, open_mode::truncate),
          .append = has(mode, open_mode::append),
          .exclusive = has(mode, open_mode::exclusive)};
}

std::error_code code_of(os::error failure) {
  return failure ? from_kernel(failure) : std::error_code();
}

// call(fd) with the file kept open. Its errors become `ec`.
template <class Call>
std::size_t on_disk(file_state& file, std::error_code& ec, Call call) {
  file_state::counter* const use = file.begin();
  if (use == nullptr) {
    ec = object_closed();
    return 0;
  }
  const os::result<std::size_t> done = call(file.plain.get());
  file.end(use);
  ec = code_of(done.error());
  return done ? *done : 0;
}

// `try_once` where there is something to wait for, `wait_inside` for files of a disk.
template <class TryOnce, class WaitInside>
std::size_t transfer(file_state* file, direction way, std::error_code& ec, TryOnce try_once,
                     WaitInside wait_inside) {
  if (file == nullptr) {
    ec = object_closed();
    return 0;
  }
  if (file->io == nullptr) return on_disk(*file, ec, wait_inside);
  operation waiting(file->io, way);
  return waiting.transfer(ec, try_once);
}

std::size_t transfer(file_state* file, std::error_code& ec, std::span<std::byte> into,
                     std::int64_t offset) {
  return transfer(
      file, direction::read, ec,
      [=](int fd) { return offset < 0 ? os::read(fd, into) : os::pread(fd, into, offset); },
      [=](int fd) { return read_file(fd, into, offset); });
}

std::size_t transfer(file_state* file, std::error_code& ec, std::span<const std::byte> bytes,
                     std::int64_t offset) {
  return transfer(
      file, direction::write, ec,
      [=](int fd) { return offset < 0 ? os::write(fd, bytes) : os::pwrite(fd, bytes, offset); },
      [=](int fd) { return write_file(fd, bytes, offset); });
}

// Something about the file as a whole.
template <class Call>
void ask(file_state* file, std::error_code& ec, Call call) {
  if (file != nullptr && file->io != nullptr) {
    const question asked(file->io);
    ec = asked.error() ? asked.error() : code_of(call(asked.fd()));
    return;
  }
  file_state::counter* const use = file != nullptr ? file->begin() : nullptr;
  if (use == nullptr) {
    ec = object_closed();
    return;
  }
  ec = code_of(blocking([&] { return call(file->fd()); }));
  file->end(use);
}

std::string_view path_of(const file_state* file) {
  return file != nullptr ? std::string_view(file->path) : std::string_view();
}

}  // namespace

// ---- Opening and closing ----------------------------------------------------------------------

file::~file() { delete state_; }

file file::open(const std::filesystem::path& path, open_mode mode, unsigned permissions,
                std::error_code& ec) {
  os::result<os::file_descriptor> opened =
      blocking([&] { return os::open_path(path.c_str(), wishes_of(mode), permissions); });
  ec = code_of(opened.error());
  return ec ? file() : file(new file_state(std::move(*opened), path.native()));
}

file file::open(const std::filesystem::path& path, open_mode mode, unsigned permissions) {
  std::error_code ec;
  file opened = open(path, mode, permissions, ec);
  throw_if(ec, "open", path.native());
  return opened;
}

void file::close() noexcept {
  if (state_ != nullptr) state_->close();
}

int file::native_handle() const noexcept { return *this ? state_->fd() : -1; }

file::operator bool() const noexcept {
  return state_ != nullptr && !state_->closed.load(acquire);  // pairs with close()
}

// ---- Bytes ------------------------------------------------------------------------------------

std::size_t file::read(std::span<std::byte> into, std::error_code& ec) {
  return transfer(state_, ec, into, k_own_position);
}

std::size_t file::read(std::span<std::byte> into) {
  std::error_code ec;
  const std::size_t got = read(into, ec);
  throw_if(ec, "read", path_of(state_));
  return got;
}

std::size_t file::write(std::span<const std::byte> bytes, std::error_code& ec) {
  std::size_t sent = 0;
  do {
    const auto rest = bytes.subspan(sent);
    sent += transfer(state_, ec, rest, k_own_position);
  } while (!ec && sent < bytes.size());
  return ec ? 0 : sent;
}

std::size_t file::write(std::span<const std::byte> bytes) {
  std::error_code ec;
  const std::size_t sent = write(bytes, ec);
  throw_if(ec, "write", path_of(state_));
  return sent;
}

std::size_t file::read_at(std::span<std::byte> into, std::uint64_t offset, std::error_code& ec) {
  std::size_t got = 0;
  do {
    const auto rest = into.subspan(got);
    const auto at = static_cast<std::int64_t>(offset + got);
    const std::size_t more = transfer(state_, ec, rest, at);
    if (more == 0) break;  // the end, or an error
    got += more;
  } while (got < into.size());
  return ec ? 0 : got;
}

std::size_t file::read_at(std::span<std::byte> into, std::uint64_t offset) {
  std::error_code ec;
  const std::size_t got = read_at(into, offset, ec);
  throw_if(ec, "read", path_of(state_));
  return got;
}

std::size_t file::write_at(std::span<const std::byte> bytes, std::uint64_t offset,
                           std::error_code& ec) {
  std::size_t sent = 0;
  do {
    const auto rest = bytes.subspan(sent);
    const auto at = static_cast<std::int64_t>(offset + sent);
    sent += transfer(state_, ec, rest, at);
  } while (!ec && sent < bytes.size());
  return ec ? 0 : sent;
}

std::size_t file::write_at(std::span<const std::byte> bytes, std::uint64_t offset) {
  std::error_code ec;
  const std::size_t sent = write_at(bytes, offset, ec);
  throw_if(ec, "write", path_of(state_));
  return sent;
}

// ---- The whole --------------------------------------------------------------------------------

std::uint64_t file::size(std::error_code& ec) const {
  std::uint64_t found = 0;
  ask(state_, ec, [&found](int fd) {
    const os::result<std::uint64_t> asked = os::size_of(fd);
    if (asked) found = *asked;
    return asked.error();
  });
  return found;
}

std::uint64_t file::size() const {
  std::error_code ec;
  const std::uint64_t found = size(ec);
  throw_if(ec, "size of", path_of(state_));
  return found;
}

void file::truncate(std::uint64_t size, std::error_code& ec) {
  ask(state_, ec, [size](int fd) { return os::truncate(fd, size); });
}

void file::truncate(std::uint64_t size) {
  std::error_code ec;
  truncate(size, ec);
  throw_if(ec, "truncate", path_of(state_));
}

void file::sync(std::error_code& ec) {
  if (state_ != nullptr && state_->io == nullptr) {
    on_disk(*state_, ec, [](int fd) -> os::result<std::size_t> {
      const os::error failed = sync_file(fd);
      return failed ? os::result<std::size_t>(failed) : os::result<std::size_t>(0);
    });
  } else {
    ask(state_, ec, [](int fd) { return os::sync(fd); });
  }
}

void file::sync() {
  std::error_code ec;
  sync(ec);
  throw_if(ec, "sync", path_of(state_));
}

}  // namespace magpie
