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
  if (needs_barrier) ++num_barriers_;
  const size_t lines = (sizeof(Command) + launch.args.size() + sizeof(Line) - 1) / sizeof(Line);
  const size_t start = lines_.size();
  lines_.resize(start + lines);
  auto* position = reinterpret_cast<std::byte*>(lines_.data() + start);
  ::new (position) Command{
      .kernel = launch.kernel,
      .function = launch.kernel->cpu,
      .num_blocks = launch.num_blocks,
      .barrier = num_barriers_,
      .size_bytes = static_cast<uint32_t>(lines * sizeof(Line)),
      .args_bytes = static_cast<uint32_t>(launch.args.size()),
  };
  if (!launch.args.empty()) {
    std::memcpy(position + sizeof(Command), launch.args.data(), launch.args.size());
  }
  ++num_commands_;
  is_serial_ = is_serial_ && launch.num_blocks == 1;
}

void CommandBlock::run(WorkerTeam& team) const noexcept {
  if (is_serial_ || team.num_workers() == 1) {
    team.run_inline(run_all, this);
  } else {
    team.run(run_share, this, num_barriers_);
  }
}

void CommandBlock::run_share(const void* context, WorkerTeam::Member& member) noexcept {
  const auto& block = *static_cast<const CommandBlock*>(context);
  uint32_t arrived = 0;
  uint32_t passed = 0;
  block.for_each([&](const Command& command) {
    // Arriving is announced at once, but only a worker that has something to do afterwards waits:
    // during a run of one-block commands the others go ahead to the barrier behind it.
    if (command.barrier != arrived) {
      arrived = command.barrier;
      member.arrive(arrived);
    }
    const BlockRange range = member.share(command.num_blocks);
    if (range.begin == range.end) return;
    if (passed != arrived) {
      passed = arrived;
      member.wait(passed);
    }
    command.function(command.args(), range);
  });
}

void CommandBlock::run_all(const void* context, WorkerTeam::Member&) noexcept {
  static_cast<const CommandBlock*>(context)->for_each([](const Command& command) {
    command.function(command.args(), {0, command.num_blocks});
  });
}

bool CommandBlock::has_shape_of(const CommandBlock& other) const noexcept {
  if (num_commands_ != other.num_commands_ || bytes() != other.bytes()) return false;
  const std::byte* a = begin();
  const std::byte* b = other.begin();
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
  const bool needs_barrier = conflict(parallel_uses_, launch.uses) ||
                             (!is_serial && conflict(serial_uses_, launch.uses));
  block_.append(launch, needs_barrier);
  if (needs_barrier) {
    serial_uses_.clear();
    parallel_uses_.clear();
  }
  std::vector<BufferUse>& mine = is_serial ? serial_uses_ : parallel_uses_;
  mine.insert(mine.end(), launch.uses.begin(), launch.uses.end());
}

}  // namespace reprise::device
