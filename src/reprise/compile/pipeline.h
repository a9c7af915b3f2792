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

/// A pass broke a program. The program that was given to the pipeline is unchanged.
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

/// Passes in order. A value without state: one pipeline serves any number of threads.
class Pipeline {
 public:
  explicit Pipeline(std::vector<Pass> passes) : passes_(std::move(passes)) {}

  [[nodiscard]] const std::vector<Pass>& passes() const& noexcept { return passes_; }
  void passes() const&& = delete;  // a loop over them would outlive the pipeline

  /// Applies each pass once and verifies the program after it. \throws program::ProgramError if the
  /// program is not well formed at the start, CompileError
  PipelineReport run(program::Program& program, const DumpCallback& dump = {}) const;

 private:
  std::vector<Pass> passes_;
};

/// The passes that the options ask for and that are valid for their range, in the order that
/// docs/reference/passes.md explains.
[[nodiscard]] Pipeline make_pipeline(const PassOptions& options);

}  // namespace reprise::compile
