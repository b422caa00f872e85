#include <magpie/group.h>

#include <mutex>

namespace magpie {

group::group(context parent) {
  auto [ctx, cancel] = with_cancel(std::move(parent));
  ctx_ = std::move(ctx);
  cancel_ = std::move(cancel);
}

group::~group() {
  cancel_();
  running_.wait();
}

void group::set_limit(int limit) {
  running_.set_limit(limit < 0 ? detail::group_counter::k_no_limit
                               : static_cast<std::size_t>(limit));
}

void group::fail(std::exception_ptr error) noexcept {
  {
    const std::scoped_lock hold(failure_lock_);
    if (failure_ != nullptr) return;
    failure_ = error;
  }
  cancel_(std::move(error));
}

void group::wait() {
  running_.wait();
  std::exception_ptr failure;
  {
    const std::scoped_lock hold(failure_lock_);
    failure = failure_;
  }
  cancel_(failure);
  if (failure != nullptr) std::rethrow_exception(std::move(failure));
}

}  // namespace magpie
