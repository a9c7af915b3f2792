#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "reprise/base/error.h"
#include "reprise/compile/pass_options.h"
#include "reprise/compile/passes/pass.h"
#include "reprise/compile/pipeline_report.h"
#include "reprise/program/program.h"

namespace reprise::compile {

/// A pass broke the rules of verify(). Pipeline::run() has not changed the caller's program.
class CompileError : public Error {
 public:
  CompileError(std::string_view pass, std::string violation);

  [[nodiscard]] const std::string& pass() const noexcept { return pass_; }
  /// The first rule that the program breaks after the pass: see program::verify().
  [[nodiscard]] const std::string& violation() const noexcept { return violation_; }

 private:
  std::string pass_;
  std::string violation_;
};

/// The program's text before and after one pass, for dumps.
struct PassDump {
  size_t index = 0;  // of the pass in the pipeline
  std::string_view pass;
  std::string before;
  std::string after;
};
using DumpCallback = std::function<void(const PassDump&)>;

/// A list of passes that run in order. It has no state, so several threads may use one pipeline.
class Pipeline {
 public:
  explicit Pipeline(std::vector<Pass> passes) : passes_(std::move(passes)) {}

  [[nodiscard]] const std::vector<Pass>& passes() const& noexcept { return passes_; }
  void passes() const&& = delete;  // a loop over the passes of a temporary would outlive them

  /// Runs each pass once, and verifies the program after each pass.
  /// \throws program::ProgramError if the program is not well formed at the start, CompileError
  PipelineReport run(program::Program& program, const DumpCallback& dump = {}) const;

 private:
  std::vector<Pass> passes_;
};

/// The passes that the options switch on and that are valid for options.range.
/// docs/reference/passes.md explains their order.
[[nodiscard]] Pipeline make_pipeline(const PassOptions& options);

}  // namespace reprise::compile
