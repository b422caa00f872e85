// Lists whose links live in the elements: nothing is allocated, an element can be removed in
// constant time, and a goroutine can be on a list without anybody owning memory for it.
//
// None of them is thread-safe; whoever owns the list owns the links of its elements.
#pragma once

#include <cstddef>

#include "base/check.h"

namespace magpie::rt {

// Last in, first out: free lists, where the newest element is the one still in the cache.
template <class T, T* T::*Next>
class intrusive_stack {
 public:
  bool empty() const { return top_ == nullptr; }
  const std::size_t& size() const { return size_; }  // a place: others may read it racily
  T* top() const { return top_; }

  void push(T* element) {
    element->*Next = top_;
    top_ = element;
    ++size_;
  }

  // Null when empty.
  T* pop() {
    T* const element = top_;
    if (element == nullptr) return nullptr;
    top_ = element->*Next;
    element->*Next = nullptr;
    --size_;
    return element;
  }

 private:
  T* top_ = nullptr;
  std::size_t size_ = 0;
};

// First in, first out, with whole queues appended at once: the batches that travel between the
// sources of runnable goroutines and the run queues.
template <class T, T* T::*Next>
class intrusive_queue {
 public:
  intrusive_queue() = default;
  intrusive_queue(intrusive_queue&& other) noexcept { append(other); }
  intrusive_queue& operator=(intrusive_queue&&) = delete;

  bool empty() const { return head_ == nullptr; }
  std::size_t size() const { return size_; }
  T* front() const { return head_; }

  void push_back(T* element) {
    element->*Next = nullptr;
    (tail_ != nullptr ? tail_->*Next : head_) = element;
    tail_ = element;
    ++size_;
  }

  void push_front(T* element) {
    element->*Next = head_;
    if (tail_ == nullptr) tail_ = element;
    head_ = element;
    ++size_;
  }

  // Null when empty.
  T* pop_front() {
    T* const element = head_;
    if (element == nullptr) return nullptr;
    head_ = element->*Next;
    if (head_ == nullptr) tail_ = nullptr;
    element->*Next = nullptr;
    --size_;
    return element;
  }

  // Takes everything out of `other`, in order.
  void append(intrusive_queue& other) {
    if (other.empty()) return;
    (tail_ != nullptr ? tail_->*Next : head_) = other.head_;
    tail_ = other.tail_;
    size_ += other.size_;
    other.head_ = other.tail_ = nullptr;
    other.size_ = 0;
  }

 private:
  T* head_ = nullptr;
  T* tail_ = nullptr;
  std::size_t size_ = 0;
};

// An element's place in one intrusive_list.
template <class T>
struct list_links {
  T* next = nullptr;
  T* previous = nullptr;
  bool linked = false;
};

// Doubly linked: any element leaves in constant time.
template <class T, list_links<T> T::*Links>
class intrusive_list {
 public:
  bool empty() const { return head_ == nullptr; }
  std::size_t size() const { return size_; }
  T* front() const { return head_; }
  T* back() const { return tail_; }
  static T* next(const T* element) { return (element->*Links).next; }
  static bool contains(const T* element) { return (element->*Links).linked; }

  void push_front(T* element) { insert(nullptr, element, head_); }
  void push_back(T* element) { insert(tail_, element, nullptr); }

  void remove(T* element) {
    list_links<T>& links = element->*Links;
    MAGPIE_DCHECK(links.linked, "removing an element that is on no list");
    (links.previous != nullptr ? (links.previous->*Links).next : head_) = links.next;
    (links.next != nullptr ? (links.next->*Links).previous : tail_) = links.previous;
    links = {};
    --size_;
  }

  // Null when empty.
  T* pop_front() {
    T* const element = head_;
    if (element != nullptr) remove(element);
    return element;
  }
  T* pop_back() {
    T* const element = tail_;
    if (element != nullptr) remove(element);
    return element;
  }

 private:
  void insert(T* before, T* element, T* after) {
    list_links<T>& links = element->*Links;
    MAGPIE_DCHECK(!links.linked, "inserting an element that is on a list already");
    links = {.next = after, .previous = before, .linked = true};
    (before != nullptr ? (before->*Links).next : head_) = element;
    (after != nullptr ? (after->*Links).previous : tail_) = element;
    ++size_;
  }

  T* head_ = nullptr;
  T* tail_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace magpie::rt
