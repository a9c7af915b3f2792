#include "reprise/scheduler/request_queue.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <memory>
#include <random>
#include <vector>

#include "reprise/scheduler/request.h"

namespace reprise::scheduler {
namespace {

TEST(RequestQueue, behaves_like_a_deque_under_random_use) {
  std::mt19937 random(1);
  std::vector<std::unique_ptr<Request>> requests;
  for (uint64_t i = 0; i < 12; ++i) {
    requests.push_back(std::make_unique<Request>(
        RequestId{i}, std::vector<int32_t>{1}, sampling::SamplingParams{}));
  }
  RequestQueue queue;
  std::deque<Request*> expected;
  for (int step = 0; step < 5000; ++step) {
    Request* request = requests[random() % requests.size()].get();
    const auto place = std::find(expected.begin(), expected.end(), request);
    if (place != expected.end()) {
      queue.remove(*request);
      expected.erase(place);
    } else if (random() % 3 == 0 && !expected.empty()) {
      const auto next = expected.begin() + static_cast<std::ptrdiff_t>(random() % expected.size());
      queue.insert_before(*next, *request);
      expected.insert(next, request);
    } else if (random() % 2 == 0) {
      queue.push_back(*request);
      expected.push_back(request);
    } else {
      queue.push_front(*request);
      expected.push_front(request);
    }
    ASSERT_EQ(queue.size(), expected.size());
    ASSERT_EQ(queue.empty(), expected.empty());
    Request* next = queue.front();
    for (Request* wanted : expected) {
      ASSERT_EQ(next, wanted);
      next = RequestQueue::next(*next);
    }
    ASSERT_EQ(next, nullptr);
    ASSERT_EQ(queue.back(), expected.empty() ? nullptr : expected.back());
    if (queue.size() > 1) {
      ASSERT_EQ(RequestQueue::prev(*queue.back()), *(expected.end() - 2));
    }
  }
}

}  // namespace
}  // namespace reprise::scheduler
