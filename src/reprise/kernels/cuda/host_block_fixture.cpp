#include "reprise/kernels/cuda/host_block_fixture.h"

#include <setjmp.h>
#include <ucontext.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <deque>
#include <memory>
#include <utility>
#include <vector>

#include "reprise/base/assert.h"

namespace reprise::kernels::cuda {
namespace {

constexpr int kLanes = 32;
constexpr size_t kStackBytes = size_t{128} << 10;
// Rounds over all threads in which none got further.
constexpr int kMostIdleRounds = 3;

struct Group {
  int size = 0;
  int arrived = 0;
  uint64_t generation = 0;
};

struct Warp {
  Group barrier;
  std::array<std::array<uint32_t, kLanes * 8>, 2> words;  // two, so that one wait per use is enough
};

struct Copy {
  void* to;
  const void* from;  // nullptr: zeros
};

struct Fiber {
  std::unique_ptr<char[]> stack = std::make_unique<char[]>(kStackBytes);
  jmp_buf state;
  ucontext_t first;
  bool is_started = false;
  bool is_done = false;
  int uses = 0;  // of the warp's words
  bool has_waited = false;  // for earlier kernels
  std::deque<std::vector<Copy>> groups;  // under way; the last one is open
};

/// Memory that earlier kernels still write, and what will be there.
class UnfinishedMemory {
 public:
  void set(std::vector<std::span<std::byte>> memory) { memory_ = std::move(memory); }
  void hide() {
    final_.clear();
    for (const std::span<std::byte> part : memory_) {
      final_.emplace_back(part.begin(), part.end());
      std::memset(part.data(), 0xFF, part.size());
    }
  }
  void reveal() {
    for (size_t i = 0; i < memory_.size(); ++i) {
      for (const std::byte byte : memory_[i]) {
        REPRISE_ASSERT(byte == std::byte{0xFF}, "a kernel wrote before it waited for earlier ones");
      }
      std::ranges::copy(final_[i], memory_[i].begin());
    }
  }

 private:
  std::vector<std::span<std::byte>> memory_;
  std::vector<std::vector<std::byte>> final_;
};

// One block at a time in a thread of the host.
class Block {
 public:
  void run(const HostLaunch& launch, uint32_t index, const std::function<void()>& kernel) {
    launch_ = launch;
    index_ = index;
    kernel_ = &kernel;
    const size_t threads = launch.threads_per_block;
    REPRISE_ASSERT(threads % kLanes == 0, "{} threads are no whole warps", threads);
    while (fibers_.size() < threads) fibers_.push_back(std::make_unique<Fiber>());
    for (auto& fiber : fibers_) {
      fiber->is_started = false;
      fiber->is_done = false;
      fiber->uses = 0;
      fiber->has_waited = false;
      fiber->groups.assign(1, {});
    }
    barrier_ = {.size = static_cast<int>(threads)};
    earlier_ = barrier_;
    unfinished_.hide();
    warps_.assign(threads / kLanes, Warp{.barrier = {.size = kLanes}, .words = {}});
    shared_.assign(launch.shared_bytes / 16 + 1, {});
    std::memset(static_cast<void*>(shared_.data()), 0xFF, shared_.size() * 16);
    size_t left = threads;
    for (int idle = 0; left > 0; ++idle) {
      REPRISE_ASSERT(idle < kMostIdleRounds, "{} threads of block {} wait for ever", left, index);
      for (size_t i = 0; i < threads; ++i) {
        if (fibers_[i]->is_done) continue;
        const uint64_t before = progress_;
        resume(i);
        if (fibers_[i]->is_done) {
          --left;
          REPRISE_ASSERT(fibers_[i]->has_waited || !launch.must_wait,
                         "thread {} did not wait for earlier kernels",
                         i);
        }
        if (progress_ != before || fibers_[i]->is_done) idle = -1;
      }
    }
  }

  [[nodiscard]] int thread() const { return current_; }
  [[nodiscard]] const HostLaunch& launch() const { return launch_; }
  [[nodiscard]] uint32_t index() const { return index_; }
  [[nodiscard]] char* shared() { return reinterpret_cast<char*>(shared_.data()); }

  [[nodiscard]] UnfinishedMemory& unfinished() { return unfinished_; }

  void wait_for_block() { wait(barrier_); }
  void wait_for_earlier() {
    Fiber& fiber = current();
    REPRISE_ASSERT(!fiber.has_waited, "a thread waits for earlier kernels once");
    fiber.has_waited = true;
    if (earlier_.arrived + 1 == earlier_.size) unfinished_.reveal();
    wait(earlier_);
  }
  void copy(const Copy& copy) { current().groups.back().push_back(copy); }
  void commit() { current().groups.emplace_back(); }
  void wait_for_copies(size_t pending) {
    auto& groups = current().groups;
    for (; groups.size() > pending + 1; groups.pop_front()) {
      for (const Copy& copy : groups.front()) {
        if (copy.from == nullptr) {
          std::memset(copy.to, 0, 16);
        } else {
          std::memcpy(copy.to, copy.from, 16);
        }
      }
    }
  }
  const uint32_t* exchange(const uint32_t* words, size_t count) {
    Warp& warp = warps_[static_cast<size_t>(current_ / kLanes)];
    Fiber& fiber = current();
    auto& place = warp.words[static_cast<size_t>(fiber.uses++ % 2)];
    std::memcpy(&place[static_cast<size_t>(current_ % kLanes) * 8], words, count * 4);
    wait(warp.barrier);
    return place.data();
  }

 private:
  struct alignas(16) Sixteen {
    char bytes[16];
  };

  static void enter();
  [[nodiscard]] Fiber& current() { return *fibers_[static_cast<size_t>(current_)]; }

  void wait(Group& group) {
    ++progress_;
    if (++group.arrived == group.size) {
      group.arrived = 0;
      ++group.generation;
      return;
    }
    const uint64_t generation = group.generation;
    while (group.generation == generation) yield();
    ++progress_;
  }

  void yield() {
    const int self = current_;
    if (_setjmp(fibers_[static_cast<size_t>(self)]->state) == 0) _longjmp(scheduler_, 1);
    current_ = self;
  }

  void resume(size_t i) {
    current_ = static_cast<int>(i);
    if (_setjmp(scheduler_) != 0) return;
    Fiber& fiber = *fibers_[i];
    if (fiber.is_started) _longjmp(fiber.state, 1);
    fiber.is_started = true;
    getcontext(&fiber.first);
    fiber.first.uc_stack.ss_sp = fiber.stack.get();
    fiber.first.uc_stack.ss_size = kStackBytes;
    fiber.first.uc_link = nullptr;
    makecontext(&fiber.first, &Block::enter, 0);
    setcontext(&fiber.first);
  }

  HostLaunch launch_;
  uint32_t index_ = 0;
  const std::function<void()>* kernel_ = nullptr;
  std::vector<std::unique_ptr<Fiber>> fibers_;
  std::vector<Warp> warps_;
  std::vector<Sixteen> shared_;
  Group barrier_;
  Group earlier_;
  UnfinishedMemory unfinished_;
  uint64_t progress_ = 0;
  int current_ = 0;
  jmp_buf scheduler_;
};

// Kernels ask for their thread without naming a block, as they do on a GPU.
thread_local Block block;

void Block::enter() {
  (*block.kernel_)();
  block.fibers_[static_cast<size_t>(block.current_)]->is_done = true;
  _longjmp(block.scheduler_, 1);
}

}  // namespace

void run_on_host(const HostLaunch& launch, const std::function<void()>& kernel) {
  for (uint32_t index = launch.first_block; index < launch.last_block; ++index) {
    block.run(launch, index, kernel);
  }
}

int thread_index() { return block.thread(); }
int num_threads() { return static_cast<int>(block.launch().threads_per_block); }
uint32_t block_index() { return block.index(); }
uint32_t grid_size() { return block.launch().num_blocks; }
void sync_block() { block.wait_for_block(); }
char* shared_memory() { return block.shared(); }

EarlierKernelsWork::EarlierKernelsWork(std::vector<std::span<std::byte>> memory) {
  block.unfinished().set(std::move(memory));
}
EarlierKernelsWork::~EarlierKernelsWork() { block.unfinished().set({}); }

void wait_for_earlier_kernels() { block.wait_for_earlier(); }
void copy_words_async(void* shared, const void* from, bool there) {
  REPRISE_ASSERT(reinterpret_cast<uintptr_t>(shared) % 16 == 0 &&
                     reinterpret_cast<uintptr_t>(from) % 16 == 0,
                 "copies of 16 bytes are aligned to 16");
  block.copy({shared, there ? from : nullptr});
}
void commit_copies() { block.commit(); }
void wait_for_copies_but(int pending) { block.wait_for_copies(static_cast<size_t>(pending)); }

float shuffle_xor(float value, int mask) {
  const uint32_t mine = float_to_bits(value);
  const uint32_t* all = block.exchange(&mine, 1);
  return bits_to_float(all[static_cast<size_t>((thread_index() % kLanes) ^ mask) * 8]);
}

uint64_t shuffle_xor(uint64_t value, int mask) {
  const uint32_t mine[2] = {static_cast<uint32_t>(value), static_cast<uint32_t>(value >> 32)};
  const uint32_t* other =
      block.exchange(mine, 2) + static_cast<size_t>((thread_index() % kLanes) ^ mask) * 8;
  return (uint64_t{other[1]} << 32) | other[0];
}

bool warp_all(bool is) {
  const uint32_t mine = is ? 1 : 0;
  const uint32_t* all = block.exchange(&mine, 1);
  bool result = true;
  for (size_t lane = 0; lane < kLanes; ++lane) result = result && all[lane * 8] != 0;
  return result;
}

int shuffle_from(int value, int lane) {
  const auto mine = static_cast<uint32_t>(value);
  return static_cast<int>(block.exchange(&mine, 1)[static_cast<size_t>(lane) * 8]);
}

const uint32_t* exchange_words(const uint32_t (&mine)[8]) { return block.exchange(mine, 8); }

}  // namespace reprise::kernels::cuda
