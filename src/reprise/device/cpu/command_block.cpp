#include "reprise/device/cpu/command_block.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <new>
#include <span>

namespace reprise::device {
namespace {

bool overlap(const BufferUse& a, const BufferUse& b) noexcept {
  const auto begin_a = reinterpret_cast<uintptr_t>(a.data);
  const auto begin_b = reinterpret_cast<uintptr_t>(b.data);
  return begin_a < begin_b + b.bytes && begin_b < begin_a + a.bytes;
}

bool conflict(std::span<const BufferUse> earlier, std::span<const BufferUse> later) noexcept {
  return std::ranges::any_of(later, [&](const BufferUse& b) {
    return std::ranges::any_of(earlier, [&](const BufferUse& a) {
      return (a.writes() || b.writes()) && a.bytes != 0 && b.bytes != 0 && overlap(a, b);
    });
  });
}

}  // namespace

void CommandBlock::append(const Launch& launch, bool needs_barrier) {
  const size_t start = lines_.size();
  if (needs_barrier || phase_begins_.empty()) {
    phase_begins_.push_back(static_cast<uint32_t>(start));
    phase_is_serial_.push_back(1);
  }
  const size_t lines = (sizeof(Command) + launch.args.size() + sizeof(Line) - 1) / sizeof(Line);
  lines_.resize(start + lines);
  auto* position = reinterpret_cast<std::byte*>(lines_.data() + start);
  ::new (position) Command{
      .kernel = launch.kernel,
      .function = launch.kernel->cpu,
      .num_blocks = launch.num_blocks,
      .phase = static_cast<uint32_t>(phase_begins_.size() - 1),
      .size_bytes = static_cast<uint32_t>(lines * sizeof(Line)),
      .args_bytes = static_cast<uint32_t>(launch.args.size()),
  };
  if (!launch.args.empty()) {
    std::memcpy(position + sizeof(Command), launch.args.data(), launch.args.size());
  }
  ++num_commands_;
  if (launch.num_blocks != 1) {
    phase_is_serial_.back() = 0;
    is_serial_ = false;
  }
}

WorkerTeam::Work CommandBlock::work() const noexcept {
  return {.run_phase = run_phase,
          .context = this,
          .num_phases = static_cast<uint32_t>(phase_begins_.size()),
          .phase_is_serial = phase_is_serial_.data()};
}

void CommandBlock::run(WorkerTeam& team, const WorkerTeam::Work& work) const noexcept {
  if (is_serial_) {
    WorkerTeam::run_inline(work);
  } else {
    team.run(work);
  }
}

void CommandBlock::run(WorkerTeam& team) const noexcept { run(team, work()); }

void CommandBlock::run_phase(const void* context,
                             uint32_t phase,
                             const WorkerTeam::Share& share) noexcept {
  const auto& block = *static_cast<const CommandBlock*>(context);
  block.for_each_of_phase(phase, [&share](const Command& command) {
    const BlockRange range = share.of(command.num_blocks);
    if (range.begin != range.end) command.function(command.args(), range);
  });
}

void CommandBlock::run_timed(WorkerTeam& team, std::span<TimePoint> ends) const noexcept {
  TimedRun timed{.block = this, .ends = ends};
  WorkerTeam::Work timed_work = work();
  timed_work.run_phase = run_timed_phase;
  timed_work.context = &timed;
  run(team, timed_work);
  if (!ends.empty()) ends.back() = std::chrono::steady_clock::now();
}

void CommandBlock::run_timed_phase(const void* context,
                                   uint32_t phase,
                                   const WorkerTeam::Share& share) noexcept {
  // Only worker 0 takes times. Its share is the one that begins with the first block.
  const auto& constant = *static_cast<const TimedRun*>(context);
  if (share.of(1).begin != 0) return run_phase(constant.block, phase, share);
  auto& timed = const_cast<TimedRun&>(constant);
  if (timed.next > 0) timed.ends[timed.next - 1] = std::chrono::steady_clock::now();
  timed.block->for_each_of_phase(phase, [&](const Command& command) {
    const BlockRange range = share.of(command.num_blocks);
    if (range.begin != range.end) command.function(command.args(), range);
    timed.ends[timed.next++] = std::chrono::steady_clock::now();
  });
}

CommandBlock CommandBlock::only(size_t index) const {
  CommandBlock block;
  size_t position = 0;
  for_each([&](const Command& command) {
    if (position++ != index) return;
    const std::span<const std::byte> args{command.args(), command.args_bytes};
    block.append(
        {.kernel = command.kernel, .num_blocks = command.num_blocks, .args = args, .uses = {}},
        /*needs_barrier=*/false);
  });
  return block;
}

CommandBlock CommandBlock::prefix(size_t num_commands) const {
  CommandBlock block;
  size_t num_lines = 0;
  for_each([&](const Command& command) {
    if (block.num_commands_ == num_commands) return;
    num_lines += command.size_bytes / sizeof(Line);
    ++block.num_commands_;
  });
  block.lines_.assign(lines_.begin(), lines_.begin() + static_cast<std::ptrdiff_t>(num_lines));
  for (size_t i = 0; i < phase_begins_.size() && phase_begins_[i] < num_lines; ++i) {
    block.phase_begins_.push_back(phase_begins_[i]);
    block.phase_is_serial_.push_back(phase_is_serial_[i]);
  }
  block.is_serial_ = std::ranges::all_of(block.phase_is_serial_, [](auto it) { return it != 0; });
  return block;
}

bool CommandBlock::has_shape_of(const CommandBlock& other) const noexcept {
  if (num_commands_ != other.num_commands_ || lines_.size() != other.lines_.size()) return false;
  const auto* a = reinterpret_cast<const std::byte*>(lines_.data());
  const auto* b = reinterpret_cast<const std::byte*>(other.lines_.data());
  for (size_t i = 0; i < num_commands_; ++i) {
    const auto& mine = *reinterpret_cast<const Command*>(a);
    const auto& theirs = *reinterpret_cast<const Command*>(b);
    if (mine.kernel != theirs.kernel || mine.num_blocks != theirs.num_blocks ||
        mine.args_bytes != theirs.args_bytes) {
      return false;
    }
    a += mine.size_bytes;
    b += theirs.size_bytes;
  }
  return true;
}

void CommandRecorder::record(const Launch& launch) {
  if (launch.num_blocks == 0) return;
  const bool is_serial = launch.num_blocks == 1;
  const bool needs_barrier =
      conflict(parallel_uses_, launch.uses) || (!is_serial && conflict(serial_uses_, launch.uses));
  block_.append(launch, needs_barrier);
  if (needs_barrier) {
    serial_uses_.clear();
    parallel_uses_.clear();
  }
  std::vector<BufferUse>& mine = is_serial ? serial_uses_ : parallel_uses_;
  mine.insert(mine.end(), launch.uses.begin(), launch.uses.end());
  all_uses_.append(launch.uses);
}

}  // namespace reprise::device
