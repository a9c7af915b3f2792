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

/// Counts what one render uses: steps, live bytes, recursion. The sandbox makes every value of the
/// template, so it checks the limit before it allocates. Each render has one sandbox, on one
/// thread; the sandbox outlives all values that it made.
class Sandbox {
 public:
  Sandbox(const Limits& limits, const std::tm& now, WorkLimit work = {})
      : limits_(limits), now_(now), work_(std::move(work)) {}
  ~Sandbox();
  Sandbox(const Sandbox&) = delete;
  Sandbox& operator=(const Sandbox&) = delete;

  /// Adds `steps` units of work. \throws TemplateError at the limit, Abandoned from the work limit
  void charge(uint64_t steps = 1) {
    steps_ += steps;
    if (steps_ > next_check_) [[unlikely]]
      check_work();
  }
  /// Adds the cost of reading `bytes` of text once.
  void charge_scan(size_t bytes) { charge(1 + bytes / 64); }
  /// Adds the cost of reading `bytes` of text code point by code point.
  void charge_decode(size_t bytes) { charge(1 + bytes / 16); }
  /// Adds the cost of visiting everything in `value`.
  void charge_walk(const Value& value) { charge(extent_of(value).weight); }

  /// Throws if a string of `bytes` would exceed the limit. Callers check before they build a long
  /// string.
  void check_text_size(uint64_t bytes);
  /// Throws if a sequence of `count` items would exceed the limit. Callers check before they build
  /// a long sequence.
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

  /// Adds or removes the bytes of an output buffer. grow_buffer() also checks the buffer's size.
  void grow_buffer(size_t by, size_t new_size);
  void release_buffer(size_t size) noexcept { live_bytes_ -= size; }
  /// Counts `bytes` as used until the render ends.
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

  /// The place that is being evaluated. Errors report it.
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
  uint64_t next_check_ = 0;  // number of steps
  size_t live_bytes_ = 0;
  int eval_depth_ = 0;
  int call_depth_ = 0;
  // Namespaces may refer to each other in a cycle of shared pointers, so the destructor empties
  // them.
  std::vector<std::shared_ptr<Namespace>> namespaces_;
};

}  // namespace reprise::chat_template
