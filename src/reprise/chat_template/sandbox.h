#pragma once

#include <ctime>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "reprise/base/work_limit.h"
#include "reprise/chat_template/limits.h"
#include "reprise/chat_template/template_error.h"
#include "reprise/chat_template/value.h"

namespace reprise::chat_template {

/// Keeps account of one render: steps, live bytes, recursion. The sandbox makes every value of the
/// template, so it checks the limit before it takes the memory. Each render has one sandbox, on one
/// thread; the sandbox outlives every value that it made.
class Sandbox {
 public:
  Sandbox(const Limits& limits, const std::tm& now, WorkLimit work = {})
      : limits_(limits), now_(now), work_(std::move(work)) {}
  ~Sandbox();
  Sandbox(const Sandbox&) = delete;
  Sandbox& operator=(const Sandbox&) = delete;

  /// Pays for `steps` units of work. \throws Abandoned when the work limit says so
  void charge(uint64_t steps = 1) {
    steps_ += steps;
    if (steps_ > next_check_) [[unlikely]]
      check_work();
  }
  /// Pays for reading `bytes` of text once.
  void charge_scan(size_t bytes) { charge(1 + bytes / 64); }
  /// Pays for reading `bytes` of text code point by code point.
  void charge_decode(size_t bytes) { charge(1 + bytes / 16); }
  /// Pays for a walk over everything in `value`.
  void charge_walk(const Value& value) { charge(extent_of(value).weight); }

  /// Throws when a string of `bytes` would exceed the limit. Callers check before they build a long
  /// string.
  void check_text_size(uint64_t bytes);
  /// Throws when a sequence of `count` items would exceed the limit. Callers check before they
  /// build a long sequence.
  void check_item_count(uint64_t count);

  [[nodiscard]] Value text(std::string bytes, bool is_markup = false);
  [[nodiscard]] Value list(std::vector<Value> items) {
    return sequence({.items = std::move(items), .flavor = Sequence::Flavor::list});
  }
  [[nodiscard]] Value tuple(std::vector<Value> items) {
    return sequence({.items = std::move(items), .flavor = Sequence::Flavor::tuple});
  }
  [[nodiscard]] Value sequence(Sequence sequence);
  [[nodiscard]] Value dict(Dict dict);
  [[nodiscard]] Value iterator(std::vector<Value> items);
  [[nodiscard]] Value name_space();
  [[nodiscard]] Value callable(Callable callable);
  [[nodiscard]] static Value undefined(std::string message);

  /// Accounts for the growth or the end of an output buffer. grow_buffer() also checks its size.
  void grow_buffer(size_t by, size_t new_size);
  void release_buffer(size_t size) noexcept { live_bytes_ -= size; }
  /// Accounts for `bytes` that stay in use until the render ends.
  void hold(size_t bytes);

  /// Scope of one level of native recursion, or of one macro call.
  class Level {
   public:
    Level(Sandbox& sandbox, int& depth, int max, const char* what) : depth_(depth) {
      if (depth >= max) [[unlikely]]
        sandbox.fail_limit(what);
      ++depth_;
    }
    ~Level() { --depth_; }
    Level(const Level&) = delete;
    Level& operator=(const Level&) = delete;

   private:
    int& depth_;
  };
  [[nodiscard]] Level enter_eval() {
    return {*this, eval_depth_, limits_.max_eval_depth, "expressions and blocks nest too deep"};
  }
  [[nodiscard]] Level enter_call() {
    return {*this, call_depth_, limits_.max_call_depth, "macros call each other too deep"};
  }

  /// The place that is being evaluated; errors carry it.
  Position at;
  [[noreturn]] void fail(std::string_view message) const;
  [[noreturn]] void fail_limit(std::string_view message) const;

  [[nodiscard]] const Limits& limits() const { return limits_; }
  [[nodiscard]] const std::tm& now() const { return now_; }
  [[nodiscard]] uint64_t steps() const { return steps_; }

 private:
  template <typename T>
  std::shared_ptr<T> account(std::remove_const_t<T> object, size_t bytes);
  void check_extent(const Extent& extent) const;
  void check_work();

  Limits limits_;
  std::tm now_;
  WorkLimit work_;
  uint64_t steps_ = 0;
  uint64_t next_check_ = 0;  // steps
  size_t live_bytes_ = 0;
  int eval_depth_ = 0;
  int call_depth_ = 0;
  // Namespaces may refer to each other in a cycle, so the destructor empties them.
  std::vector<std::shared_ptr<Namespace>> namespaces_;
};

}  // namespace reprise::chat_template
