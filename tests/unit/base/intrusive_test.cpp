#include "base/intrusive.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <deque>
#include <utility>
#include <vector>

#include "base/random.h"
#include "support/subprocess.h"

namespace magpie::rt {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

struct element {
  explicit element(int number) : value(number) {}
  int value;
  element* next = nullptr;
  list_links<element> links;
  list_links<element> other_links;
};

using stack_of = intrusive_stack<element, &element::next>;
using queue_of = intrusive_queue<element, &element::next>;
using list_of = intrusive_list<element, &element::links>;
using other_list_of = intrusive_list<element, &element::other_links>;

std::vector<int> drain(queue_of& queue) {
  std::vector<int> values;
  while (element* const e = queue.pop_front()) values.push_back(e->value);
  return values;
}

// In order; the links backwards and all that the list says of itself are compared on the way.
std::vector<int> values_of(const list_of& list) {
  std::vector<int> values;
  const element* previous = nullptr;
  for (const element* e = list.front(); e != nullptr; e = list_of::next(e)) {
    EXPECT_EQ(e->links.previous, previous);
    EXPECT_TRUE(list_of::contains(e));
    values.push_back(e->value);
    previous = e;
  }
  EXPECT_EQ(list.back(), previous);
  EXPECT_EQ(list.size(), values.size());
  EXPECT_EQ(list.empty(), values.empty());
  return values;
}

TEST(IntrusiveStack, LastPushedIsFirstPopped) {
  element a(1), b(2), c(3);
  stack_of stack;
  EXPECT_TRUE(stack.empty());
  stack.push(&a);
  stack.push(&b);
  EXPECT_EQ(stack.pop(), &b);
  stack.push(&c);
  EXPECT_EQ(stack.size(), 2u);
  EXPECT_EQ(stack.top(), &c);
  EXPECT_EQ(stack.pop(), &c);
  EXPECT_EQ(stack.pop(), &a);
  EXPECT_EQ(stack.pop(), nullptr);
  EXPECT_EQ(stack.size(), 0u);
  EXPECT_TRUE(stack.empty());
  EXPECT_EQ(stack.top(), nullptr);
}

TEST(IntrusiveStack, PoppedElementsPointNowhere) {
  element a(1), b(2);
  stack_of stack;
  stack.push(&a);
  stack.push(&b);
  stack.pop();
  EXPECT_EQ(b.next, nullptr);
}

TEST(IntrusiveQueue, FirstPushedIsFirstPopped) {
  element a(1), b(2), c(3);
  queue_of queue;
  queue.push_back(&a);
  queue.push_back(&b);
  EXPECT_EQ(queue.front(), &a);
  EXPECT_EQ(queue.pop_front(), &a);
  EXPECT_EQ(a.next, nullptr);
  queue.push_back(&c);
  EXPECT_EQ(queue.size(), 2u);
  EXPECT_THAT(drain(queue), ElementsAre(2, 3));
  EXPECT_TRUE(queue.empty());
  EXPECT_EQ(queue.size(), 0u);
  EXPECT_EQ(queue.front(), nullptr);
}

TEST(IntrusiveQueue, WhatIsPushedToTheFrontComesFirst) {
  element a(1), b(2), c(3);
  queue_of queue;
  queue.push_front(&a);
  queue.push_back(&b);  // after an element that came in by the front
  queue.push_front(&c);
  EXPECT_THAT(drain(queue), ElementsAre(3, 1, 2));
}

TEST(IntrusiveQueue, WorksAgainAfterItWasEmptied) {
  element a(1), b(2);
  queue_of queue;
  queue.push_back(&a);
  queue.pop_front();
  queue.push_back(&b);
  queue.push_back(&a);
  EXPECT_THAT(drain(queue), ElementsAre(2, 1));
}

TEST(IntrusiveQueue, AppendTakesEverythingInOrder) {
  element a(1), b(2), c(3), d(4);
  queue_of first, second;
  first.push_back(&a);
  second.push_back(&b);
  second.push_back(&c);
  first.append(second);
  EXPECT_TRUE(second.empty());
  EXPECT_EQ(second.size(), 0u);
  first.push_back(&d);
  EXPECT_EQ(first.size(), 4u);
  EXPECT_THAT(drain(first), ElementsAre(1, 2, 3, 4));
  second.push_back(&a);
  EXPECT_THAT(drain(second), ElementsAre(1)) << "an emptied queue must be as good as new";
}

TEST(IntrusiveQueue, AppendToOrOfAnEmptyQueue) {
  element a(1), b(2);
  queue_of empty, queue;
  queue.push_back(&a);
  queue.append(empty);
  EXPECT_EQ(queue.size(), 1u);
  empty.append(queue);
  EXPECT_TRUE(queue.empty());
  empty.push_back(&b);
  EXPECT_THAT(drain(empty), ElementsAre(1, 2));
  empty.append(queue);
  EXPECT_TRUE(empty.empty());
}

TEST(IntrusiveQueue, MovingLeavesTheSourceEmpty) {
  element a(1), b(2);
  queue_of source;
  source.push_back(&a);
  source.push_back(&b);
  queue_of target(std::move(source));
  EXPECT_EQ(target.size(), 2u);
  EXPECT_THAT(drain(target), ElementsAre(1, 2));
  EXPECT_TRUE(source.empty());
  EXPECT_EQ(source.size(), 0u);
}

TEST(IntrusiveList, ElementsLeaveFromEveryPlace) {
  element a(1), b(2), c(3), d(4);
  list_of list;
  EXPECT_THAT(values_of(list), IsEmpty());
  list.push_back(&b);
  list.push_back(&c);
  list.push_front(&a);
  list.push_back(&d);
  EXPECT_THAT(values_of(list), ElementsAre(1, 2, 3, 4));
  list.remove(&c);
  EXPECT_THAT(values_of(list), ElementsAre(1, 2, 4));
  EXPECT_FALSE(list_of::contains(&c));
  list.remove(&a);
  EXPECT_THAT(values_of(list), ElementsAre(2, 4));
  list.remove(&d);
  EXPECT_THAT(values_of(list), ElementsAre(2));
  list.remove(&b);
  EXPECT_THAT(values_of(list), IsEmpty());
  list.push_front(&c);
  EXPECT_THAT(values_of(list), ElementsAre(3));
}

TEST(IntrusiveList, PopsFromBothEnds) {
  element a(1), b(2), c(3);
  list_of list;
  for (element* e : {&a, &b, &c}) list.push_back(e);
  EXPECT_EQ(list.pop_back(), &c);
  EXPECT_EQ(list.pop_front(), &a);
  EXPECT_EQ(list.pop_back(), &b);
  EXPECT_EQ(list.pop_back(), nullptr);
  EXPECT_EQ(list.pop_front(), nullptr);
  EXPECT_THAT(values_of(list), IsEmpty());
}

TEST(IntrusiveList, RemovedElementsPointNowhere) {
  element a(1), b(2), c(3);
  list_of list;
  for (element* e : {&a, &b, &c}) list.push_back(e);
  list.remove(&b);
  EXPECT_EQ(b.links.next, nullptr);
  EXPECT_EQ(b.links.previous, nullptr);
  EXPECT_FALSE(b.links.linked);
}

TEST(IntrusiveList, OnlyElementIsOnAListToo) {
  element a(1);
  list_of list;
  EXPECT_FALSE(list_of::contains(&a));
  list.push_back(&a);
  EXPECT_TRUE(list_of::contains(&a)) << "although both of its neighbours are null";
}

TEST(IntrusiveList, ElementsAreOnListsOfDifferentLinksAtOnce) {
  element a(1), b(2);
  list_of list;
  other_list_of other;
  list.push_back(&a);
  list.push_back(&b);
  other.push_back(&b);
  other.push_back(&a);
  list.remove(&a);
  EXPECT_THAT(values_of(list), ElementsAre(2));
  EXPECT_EQ(other.pop_front(), &b);
  EXPECT_EQ(other.pop_front(), &a);
}

// Against std::deque, with choices from a fixed seed.
TEST(IntrusiveList, BehavesAsADequeUnderRandomOperations) {
  std::vector<element> elements;
  elements.reserve(20);
  for (int i = 0; i < 20; ++i) elements.emplace_back(i);
  list_of list;
  std::deque<int> model;
  random_source random(7);
  for (int step = 0; step < 20'000; ++step) {
    element& e = elements[random.below(20)];
    if (!list_of::contains(&e)) {
      if (random.below(2) == 0) {
        list.push_front(&e);
        model.push_front(e.value);
      } else {
        list.push_back(&e);
        model.push_back(e.value);
      }
    } else if (random.below(3) == 0) {
      ASSERT_EQ(list.pop_front()->value, model.front());
      model.pop_front();
    } else {
      list.remove(&e);
      std::erase(model, e.value);
    }
    ASSERT_EQ(values_of(list), std::vector<int>(model.begin(), model.end()));
  }
}

#ifndef NDEBUG
TEST(IntrusiveList, InsertingTwiceIsReported) {
  const auto end = testing::run_program("misuse", {"insert_twice"});
  EXPECT_EQ(end.signal, SIGABRT);
  EXPECT_THAT(end.output, HasSubstr("inserting an element that is on a list already"));
}

TEST(IntrusiveList, RemovingWhatIsOnNoListIsReported) {
  const auto end = testing::run_program("misuse", {"remove_unlinked"});
  EXPECT_EQ(end.signal, SIGABRT);
  EXPECT_THAT(end.output, HasSubstr("removing an element that is on no list"));
}
#endif

}  // namespace
}  // namespace magpie::rt
