#include "reprise/cudagraph/capture/measured_ladder.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <optional>
#include <tuple>
#include <utility>

#include "reprise/base/error.h"
#include "reprise/device/error.h"

namespace reprise::cudagraph {
namespace {

// A comparison ends when one result has won this many rounds more than the other, and the least
// times agree with that result. So five rounds that agree are enough, and noise makes more rounds.
constexpr int kLead = 5;
// Undecided pairs are timed this often. Then the least times decide.
constexpr size_t kMostRounds = 21;
// The measurement stops after this time, also on a slow device. Each ladder gets an equal share of
// the time that is left. Candidates that were not timed are kept in steps of an eighth of their
// size, which bounds the padding without a measurement.
constexpr double kMostSeconds = 120;
constexpr int32_t kUnmeasuredStep = 8;
// The search for the largest size that pays ends after this many sizes in a row that do not pay: a
// single one may be a disturbance of the machine.
constexpr int kMostMisses = 2;

/// Other programs only add to the time of a run. Where they disturb four runs of ten, medians give
/// the wrong result of a comparison in 12 % of all cases, least times in 0.5 % (docs/adr/0093).
double least(const std::vector<double>& times) { return *std::ranges::min_element(times); }

double median(std::vector<double> values) {
  std::ranges::sort(values);
  const size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

int32_t query_len_of(const PlannedKey& key) {
  return key.descriptor.uniform ? key.descriptor.num_tokens / key.descriptor.num_reqs.value_or(1)
                                : 0;
}

/// Keys with the same value serve the same kind of batch.
auto ladder_of(const PlannedKey& key) {
  return std::tuple(
      key.mode, key.descriptor.uniform, query_len_of(key), key.descriptor.num_active_loras);
}

std::string other_text(const PlannedKey& other) {
  const BatchDescriptor& d = other.descriptor;
  if (other.mode == CudagraphRuntimeMode::NONE) return "an eager step of the same size";
  if (d.uniform)
    return fmt::format("the {} key of {} requests", to_string(other.mode), *d.num_reqs);
  return fmt::format("the {} key of {} tokens", to_string(other.mode), d.num_tokens);
}

std::string figures_of(const MeasuredKey& key) {
  return fmt::format("saves {:.1f} % against {}: {:.0f} us, {:.0f} us",
                     100 * key.saving(),
                     other_text(key.other),
                     key.microseconds,
                     key.other_microseconds);
}

class Measurement {
 public:
  Measurement(CudagraphDispatcher& dispatcher, const LadderCallbacks& callbacks)
      : dispatcher_(&dispatcher), callbacks_(&callbacks), start_(callbacks.now()) {}

  LadderReport run();

 private:
  /// The keys of one ladder, the largest first.
  using Ladder = std::vector<PlannedKey>;
  /// Runs `work`, which captures and times the key. Returns whether the capture succeeded; if not,
  /// the key has no graph, and `failed_` has the reason.
  template <typename Work>
  [[nodiscard]] bool attempt(const PlannedKey& key, const Work& work);
  [[nodiscard]] std::optional<MeasuredKey> measure(const PlannedKey& key);
  void compare(MeasuredKey& measured, const BatchFacts& batch, const Decision& other);
  void walk(const Ladder& ladder, double seconds);
  [[nodiscard]] size_t find_largest_that_pays(const Ladder& ladder, double deadline);
  [[nodiscard]] bool probe(const PlannedKey& key);
  /// Whether a comparison will probably end before the deadline.
  [[nodiscard]] bool has_time_for(const PlannedKey& key, double deadline) const;
  void judge(const PlannedKey& key);
  void judge_without_time(const PlannedKey& key);
  void keep(MeasuredKey measured);
  void drop(MeasuredKey measured, std::string because);
  [[nodiscard]] static bool pays(double microseconds, double other_microseconds) {
    return microseconds <= (1 - kLeastSaving) * other_microseconds;
  }
  [[nodiscard]] static bool pays(const MeasuredKey& measured) {
    return pays(measured.microseconds, measured.other_microseconds);
  }

  CudagraphDispatcher* dispatcher_;
  const LadderCallbacks* callbacks_;
  double start_;
  LadderReport report_;
  std::vector<PlannedKey> captured_;  // keys with a graph that are kept
  // Why the last capture failed; empty: the exception was not an error of Reprise.
  std::string failed_;
  // About the ladder that is being searched:
  std::string miss_;              // about the last probe that did not pay: its key, and why
  int32_t last_kept_tokens_ = 0;  // 0: none is kept yet
  double seconds_per_token_ = 0;  // time per token of the last whole comparison; 0: none yet
};

template <typename Work>
bool Measurement::attempt(const PlannedKey& key, const Work& work) {
  failed_.clear();
  try {
    callbacks_->capture(key);
    work();
    return true;
  } catch (const OutOfMemory& error) {
    failed_ = fmt::format("has no room in memory: {}", error.what());
  } catch (const device::DeviceError& error) {
    if (error.is_sticky()) throw;
  }
  callbacks_->forget(key);
  return false;
}

void Measurement::compare(MeasuredKey& measured, const BatchFacts& batch, const Decision& other) {
  const Decision own{measured.key.mode, measured.key.descriptor, other.reason};
  const auto time = [&](const Decision& decision) {
    ++report_.num_runs;
    return callbacks_->time(batch, decision);
  };
  std::vector<double> times;
  std::vector<double> other_times;
  int lead = 0;  // rounds in which the key pays, minus the other rounds
  const double start = callbacks_->now();
  // The first runs fill the caches from which later runs profit, so their times do not count.
  (void)callbacks_->time(batch, own);
  (void)callbacks_->time(batch, other);
  while (times.size() < kMostRounds) {
    // The two take turns, so that neither of them always runs after the other.
    const bool is_first = times.size() % 2 == 0;
    if (is_first) times.push_back(time(own));
    other_times.push_back(time(other));
    if (!is_first) times.push_back(time(own));
    lead += pays(times.back(), other_times.back()) ? 1 : -1;
    if (std::abs(lead) < kLead) continue;
    if (pays(least(times), least(other_times)) == (lead > 0)) break;
  }
  seconds_per_token_ = (callbacks_->now() - start) / batch.num_tokens;
  measured.microseconds = least(times);
  measured.other_microseconds = least(other_times);
}

std::optional<MeasuredKey> Measurement::measure(const PlannedKey& key) {
  const BatchFacts batch = batch_of_key(key, dispatcher_->options().max_num_seqs);
  // The key is not captured for the dispatcher yet, so this is what its batches would get.
  Decision other = dispatcher_->dispatch(batch);
  if (other.mode == CudagraphRuntimeMode::NONE) {
    other.descriptor.has_lora = batch.num_active_loras > 0;
    other.descriptor.num_active_loras = batch.num_active_loras;
  }
  MeasuredKey measured{.key = key, .other = {other.mode, other.descriptor}};
  if (!attempt(key, [&] { compare(measured, batch, other); })) return std::nullopt;
  return measured;
}

void Measurement::keep(MeasuredKey measured) {
  const PlannedKey key = measured.key;
  captured_.push_back(key);
  dispatcher_->mark_captured(key.mode, key.descriptor);
  last_kept_tokens_ = key.descriptor.num_tokens;
  report_.keys.push_back(std::move(measured));
}

void Measurement::drop(MeasuredKey measured, std::string because) {
  const PlannedKey& key = measured.key;
  callbacks_->forget(key);
  measured.dropped_because = std::move(because);
  dispatcher_->retire(key.mode, key.descriptor, measured.dropped_because, Retirement::dropped);
  report_.keys.push_back(std::move(measured));
}

/// Whether a key pays, compared with what serves its batches without the ladder. The graph of the
/// key is destroyed again.
bool Measurement::probe(const PlannedKey& key) {
  const std::optional<MeasuredKey> measured = measure(key);
  if (!measured && failed_.empty()) return true;  // the capture session reports the failure
  if (measured) callbacks_->forget(key);
  if (measured && pays(*measured)) return true;
  miss_ = fmt::format("the key of {} tokens {}",
                      key.descriptor.num_tokens,
                      measured ? figures_of(*measured) : failed_);
  return false;
}

bool Measurement::has_time_for(const PlannedKey& key, double deadline) const {
  return callbacks_->now() + seconds_per_token_ * key.descriptor.num_tokens <= deadline;
}

/// Returns the index of the largest key that pays; the size of the ladder if no key does. Starts
/// with the smallest sizes, because on a slow device the largest ones would take minutes, and the
/// share of launches in a step falls with the size of the step. If the time ends before a size that
/// does not pay is found, all sizes count as paying.
size_t Measurement::find_largest_that_pays(const Ladder& ladder, double deadline) {
  seconds_per_token_ = 0;
  size_t paying = ladder.size();
  size_t not_paying = ladder.size();
  int num_misses = 0;
  std::string first_miss;
  for (size_t index = ladder.size() - 1;;) {
    if (probe(ladder[index])) {
      paying = index;
      num_misses = 0;
    } else if (++num_misses == 1) {
      not_paying = index;
      first_miss = miss_;
    }
    if (num_misses == kMostMisses || index == 0) break;
    const int64_t twice = int64_t{2} * ladder[index].descriptor.num_tokens;
    while (index > 0 && ladder[index].descriptor.num_tokens < twice) --index;
    if (!has_time_for(ladder[index], deadline)) break;
  }
  if (num_misses == 0) return 0;
  miss_ = first_miss;
  // The largest key that pays lies between a probe that does not pay and the next smaller probe,
  // which pays.
  while (paying > not_paying + 1) {
    const size_t middle = not_paying + (paying - not_paying) / 2;
    (probe(ladder[middle]) ? paying : not_paying) = middle;
  }
  return paying;
}

void Measurement::judge_without_time(const PlannedKey& key) {
  const int32_t tokens = key.descriptor.num_tokens;
  const bool is_near = last_kept_tokens_ > 0 &&
                       int64_t{last_kept_tokens_ - tokens} * kUnmeasuredStep < last_kept_tokens_;
  if (is_near) {
    return drop({.key = key},
                fmt::format("was not timed, because measuring may take {:.0f} s, and the key of {} "
                            "tokens is less than an eighth larger",
                            kMostSeconds,
                            last_kept_tokens_));
  }
  if (attempt(key, [] {})) return keep({.key = key});
  if (!failed_.empty()) drop({.key = key}, failed_);
}

void Measurement::judge(const PlannedKey& key) {
  std::optional<MeasuredKey> measured = measure(key);
  if (!measured) {
    if (!failed_.empty()) drop({.key = key}, failed_);
    return;
  }
  if (pays(*measured)) return keep(std::move(*measured));
  std::string figures = figures_of(*measured);
  drop(std::move(*measured), std::move(figures));
}

void Measurement::walk(const Ladder& ladder, double seconds) {
  last_kept_tokens_ = 0;
  const double start = callbacks_->now();
  const size_t largest = find_largest_that_pays(ladder, start + seconds / 2);
  for (size_t i = 0; i < largest; ++i) {
    drop({.key = ladder[i]}, "is larger than all sizes that pay: " + miss_);
  }
  for (size_t i = largest; i < ladder.size(); ++i) {
    if (has_time_for(ladder[i], start + seconds)) {
      judge(ladder[i]);
    } else {
      judge_without_time(ladder[i]);
    }
  }
}

LadderReport Measurement::run() {
  std::vector<Ladder> ladders;
  for (const CaptureGroup& group : dispatcher_->capture_plan()) {
    for (const BatchDescriptor& descriptor : group.descriptors) {
      const PlannedKey key{group.mode, descriptor};
      const auto found = std::ranges::find_if(ladders, [&](const Ladder& ladder) {
        return ladder_of(ladder.front()) == ladder_of(key);
      });
      (found == ladders.end() ? ladders.emplace_back() : *found).push_back(key);
    }
  }
  for (size_t i = 0; i < ladders.size(); ++i) {
    const double left = kMostSeconds - (callbacks_->now() - start_);
    walk(ladders[i], std::max(left, 0.0) / static_cast<double>(ladders.size() - i));
  }
  for (const PlannedKey& key : captured_) {
    callbacks_->forget(key);
    dispatcher_->release(key.mode, key.descriptor);
  }
  report_.seconds = callbacks_->now() - start_;
  return std::move(report_);
}

}  // namespace

size_t LadderReport::num_kept() const noexcept {
  return static_cast<size_t>(std::ranges::count_if(keys, &MeasuredKey::is_kept));
}

std::string LadderReport::describe() const {
  std::vector<double> savings;
  for (const MeasuredKey& key : keys) {
    if (key.is_kept() && key.other_microseconds > 0) savings.push_back(100 * key.saving());
  }
  std::string text = fmt::format("{} of {} keys pay; {} batches were timed in {:.3f} s",
                                 num_kept(),
                                 keys.size(),
                                 num_runs,
                                 seconds);
  if (savings.empty()) return text;
  const auto [least, most] = std::ranges::minmax(savings);
  return text +
         fmt::format(
             "; a key saves {:.1f} % to {:.1f} % of a step of its size, {:.1f} % in the median",
             least,
             most,
             median(savings));
}

BatchFacts batch_of_key(const PlannedKey& key, int32_t max_num_seqs) {
  const BatchDescriptor& d = key.descriptor;
  const int32_t query_len = query_len_of(key);
  const int32_t num_reqs = d.num_reqs.value_or(std::min(d.num_tokens, max_num_seqs));
  return {.num_tokens = d.num_tokens,
          .num_reqs = num_reqs,
          .uniform = d.uniform,
          .query_len = query_len,
          .num_active_loras = d.num_active_loras,
          .num_logits = d.uniform ? d.num_tokens : num_reqs};
}

LadderReport measure_ladders(CudagraphDispatcher& dispatcher,
                             CapturePermission& permission,
                             const LadderCallbacks& callbacks) {
  const OpenPermission open(permission);
  return Measurement(dispatcher, callbacks).run();
}

void drop_measured(CudagraphDispatcher& dispatcher, const LadderReport& report) {
  for (const MeasuredKey& measured : report.keys) {
    if (measured.is_kept()) continue;
    dispatcher.retire(
        measured.key.mode, measured.key.descriptor, measured.dropped_because, Retirement::dropped);
  }
}

}  // namespace reprise::cudagraph
