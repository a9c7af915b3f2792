#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "reprise/cudagraph/batch_descriptor.h"
#include "reprise/cudagraph/cudagraph_mode.h"

namespace reprise::cudagraph {

/// The result of --verify-graphs for a key. The names are stable, because metrics show them.
enum class CaptureVerdict : uint8_t {
  unchecked,  // nothing: it is off
  proved,
  partly_proved,  // some nodes do not say which memory they use
  violated,       // a rule is broken, so the key was retired
  failed,         // there is no graph, for another reason
};

inline constexpr size_t kNumCaptureVerdicts = 5;

[[nodiscard]] std::string_view to_string(CaptureVerdict verdict) noexcept;

/// The result of capturing one key.
struct CaptureRecord {
  CudagraphRuntimeMode mode = CudagraphRuntimeMode::NONE;
  BatchDescriptor descriptor;
  double seconds = 0;
  size_t bytes = 0;               // memory that this capture took
  std::string failure;            // why the key was retired; empty: its graph was captured
  bool is_out_of_memory = false;  // whether memory was missing for it
  CaptureVerdict verdict = CaptureVerdict::unchecked;
  std::string rule;           // the name of the GraphRule that is broken; empty: none
  double verify_seconds = 0;  // the part of `seconds` that the verdict took
};

/// The measurement of one candidate key of the capture size rule `measured`.
struct MeasuredKey {
  PlannedKey key;
  /// What a batch of exactly this size would run with if this key did not exist: a larger key of
  /// the same ladder, a PIECEWISE key, or mode NONE for an eager step of num_tokens.
  PlannedKey other;
  double microseconds = 0;        // the least time of a replay; 0: this key was not timed
  double other_microseconds = 0;  // the least time of `other` over the same batch
  std::string dropped_because;    // empty: it is kept

  [[nodiscard]] bool is_kept() const noexcept { return dropped_because.empty(); }
  /// The part of the time that the key saves; below 0, the key is slower. 0 if the key was not
  /// timed.
  [[nodiscard]] double saving() const noexcept {
    return other_microseconds > 0 ? 1 - microseconds / other_microseconds : 0;
  }
};

/// The candidates of a start. The candidates of each ladder are in descending order.
struct LadderReport {
  std::vector<MeasuredKey> keys;
  double seconds = 0;
  size_t num_runs = 0;  // dummy batches that were timed

  [[nodiscard]] size_t num_kept() const noexcept;
  /// "23 of 86 capture sizes kept; each saves 1.2 % to 48.0 % ...".
  [[nodiscard]] std::string describe() const;
};

struct CaptureReport {
  std::vector<CaptureRecord> records;
  double seconds = 0;
  size_t bytes = 0;
  std::string violation;               // a broken rule about all keys together; empty: none
  std::optional<LadderReport> ladder;  // with the rule measured: which keys pay

  [[nodiscard]] size_t num_captured() const noexcept;
  [[nodiscard]] size_t num_with(CaptureVerdict verdict) const noexcept;
  [[nodiscard]] double verify_seconds() const noexcept;
  /// "86 proved, 1 violated"; empty if nothing was checked.
  [[nodiscard]] std::string describe_verdicts() const;
};

}  // namespace reprise::cudagraph
