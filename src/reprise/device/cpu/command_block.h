#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "reprise/device/cpu/worker_team.h"
#include "reprise/device/graph_node.h"
#include "reprise/device/kernel.h"

namespace reprise::device {

/// The header of one captured launch. The arguments follow it, padded to whole cache lines.
struct Command {
  const Kernel* kernel = nullptr;
  CpuKernelFunction function = nullptr;  // a copy of kernel->cpu, which saves an indirection
  uint32_t num_blocks = 0;
  uint32_t phase = 0;       // number of barriers before this command
  uint32_t size_bytes = 0;  // from this header to the next one, padding included
  uint32_t args_bytes = 0;

  [[nodiscard]] const std::byte* args() const noexcept {
    return reinterpret_cast<const std::byte*>(this + 1);
  }
};
static_assert(sizeof(Command) == 32, "arguments follow aligned to 16, small ones in the same line");

/// The content of a CPU graph: captured launches in one contiguous range of memory. A value type.
/// It refers to kernels, and to the memory that the arguments point to.
class CommandBlock {
 public:
  /// Appends a launch. If `needs_barrier` is true, it waits for all commands before it.
  void append(const Launch& launch, bool needs_barrier);

  /// Runs all commands in order with the team.
  void run(WorkerTeam& team) const noexcept;

  using TimePoint = std::chrono::steady_clock::time_point;
  /// Runs all commands like run(), and notes when each of them has ended. Worker 0 takes the times:
  /// between two commands without a barrier, other workers may still run the first one; the last
  /// command before a barrier ends when all workers have passed it.
  /// \pre one element for each command
  void run_timed(WorkerTeam& team, std::span<TimePoint> ends) const noexcept;

  /// A block of the first commands. \pre num_commands <= this block's
  [[nodiscard]] CommandBlock prefix(size_t num_commands) const;
  /// A block of one command. \pre index < num_commands()
  [[nodiscard]] CommandBlock only(size_t index) const;

  [[nodiscard]] size_t num_commands() const noexcept { return num_commands_; }
  [[nodiscard]] size_t bytes() const noexcept {
    return lines_.size() * sizeof(Line) + phase_begins_.size() * sizeof(uint32_t) +
           phase_is_serial_.size();
  }

  /// Whether both blocks have the same kernels, grids and argument sizes in the same order.
  [[nodiscard]] bool has_shape_of(const CommandBlock& other) const noexcept;

  template <typename Visitor>
  void for_each(Visitor&& visit) const {
    for_each_in(0, lines_.size(), visit);
  }

 private:
  struct alignas(64) Line {
    std::array<std::byte, 64> bytes;
  };

  template <typename Visitor>
  void for_each_in(size_t begin_line, size_t end_line, Visitor&& visit) const {
    const auto* position = reinterpret_cast<const std::byte*>(lines_.data() + begin_line);
    const auto* end = reinterpret_cast<const std::byte*>(lines_.data() + end_line);
    while (position != end) {
      const auto& command = *reinterpret_cast<const Command*>(position);
      visit(command);
      position += command.size_bytes;
    }
  }
  void run(WorkerTeam& team, const WorkerTeam::Work& work) const noexcept;
  [[nodiscard]] WorkerTeam::Work work() const noexcept;
  template <typename Visitor>
  void for_each_of_phase(uint32_t phase, Visitor&& visit) const {
    const size_t next = size_t{phase} + 1;
    const size_t end = next < phase_begins_.size() ? phase_begins_[next] : lines_.size();
    for_each_in(phase_begins_[phase], end, visit);
  }
  static void run_phase(const void* context,
                        uint32_t phase,
                        const WorkerTeam::Share& share) noexcept;
  /// A run whose commands are timed.
  struct TimedRun {
    const CommandBlock* block = nullptr;
    std::span<TimePoint> ends;
    size_t next = 0;  // the command that worker 0 runs next
  };
  static void run_timed_phase(const void* context,
                              uint32_t phase,
                              const WorkerTeam::Share& share) noexcept;

  std::vector<Line> lines_;
  std::vector<uint32_t> phase_begins_;    // the first line of each phase
  std::vector<uint8_t> phase_is_serial_;  // whether all commands of the phase have one block
  size_t num_commands_ = 0;
  bool is_serial_ = true;  // whether all phases are serial
};

/// Builds a CommandBlock. It finds out from the buffer uses of the launches where barriers are
/// needed.
///
/// Two commands conflict if they use the same bytes and at least one of them writes these bytes.
/// Then the second command must not start before the first one has ended. Commands with one block
/// all run on worker 0, in order, so two of them need no barrier. All other conflicting pairs need
/// a barrier between the two commands. Each barrier is placed as late as possible: directly before
/// the second command of the first pair that has no barrier yet. This gives the fewest barriers.
class CommandRecorder {
 public:
  void record(const Launch& launch);

  [[nodiscard]] size_t num_commands() const noexcept { return block_.num_commands(); }
  /// The memory that the commands use, in their order.
  [[nodiscard]] LaunchUses take_uses() { return std::move(all_uses_); }
  [[nodiscard]] CommandBlock finish() && { return std::move(block_); }

 private:
  // The memory used since the last barrier: by commands with one block, and by other commands.
  std::vector<BufferUse> serial_uses_;
  std::vector<BufferUse> parallel_uses_;
  LaunchUses all_uses_;
  CommandBlock block_;
};

}  // namespace reprise::device
