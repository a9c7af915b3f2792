// The limits of this machine that decode and prefill are compared with: read bandwidth from memory,
// and the peak of matrix instructions on registers. Prints one line of JSON; the best of several
// runs each.
//
// usage: cpu_roof [THREADS [read]]     read: only the bandwidth

#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <iterator>
#include <numeric>
#include <string_view>
#include <thread>
#include <vector>

#ifdef __x86_64__
#include <immintrin.h>

#include "reprise/device/cpu/cpu_features.h"
#endif

namespace {

using Clock = std::chrono::steady_clock;

constexpr int kRuns = 7;
constexpr size_t kReadBytes = size_t{512} << 20;  // per thread: beyond the caches

// The shortest time in which all threads did `work`, in seconds.
double best_seconds(int threads, const std::function<void(int)>& work) {
  double best = 1e9;
  for (int run = 0; run < kRuns; ++run) {
    std::atomic<int> ready = 0;
    std::atomic<bool> go = false;
    std::vector<std::thread> team;
    for (int t = 0; t < threads; ++t) {
      team.emplace_back([&, t] {
        ++ready;
        while (!go) std::this_thread::yield();
        work(t);
      });
    }
    while (ready < threads) std::this_thread::yield();
    const Clock::time_point begin = Clock::now();
    go = true;
    for (std::thread& thread : team) thread.join();
    best = std::min(best, std::chrono::duration<double>(Clock::now() - begin).count());
  }
  return best;
}

volatile uint64_t sink = 0;

constexpr size_t kLine = 64 / sizeof(uint64_t);
constexpr size_t kAhead = 64 * kLine;

// Streams side by side, each as long as a panel of weights, one group of them after the other.
template <size_t kStreams>
uint64_t sum_of(const uint64_t* words, size_t count) {
  constexpr size_t kStream = 448 * kLine;
  uint64_t sums[kLine] = {};
  for (size_t group = 0; group + kStreams * kStream <= count; group += kStreams * kStream) {
    for (size_t i = group; i < group + kStream; i += kLine) {
      for (size_t s = 0; s < kStreams; ++s) {
        const uint64_t* line = words + i + s * kStream;
        __builtin_prefetch(line + kAhead, 0, 2);
        for (size_t j = 0; j < kLine; ++j) sums[j] += line[j];
      }
    }
  }
  return std::accumulate(std::begin(sums), std::end(sums), uint64_t{0});
}

// The best of one, four and eight streams: which of them is fastest differs between machines.
double read_gb_s(int threads) {
  std::vector<uint64_t*> memory;
  for (int t = 0; t < threads; ++t) {
    void* bytes = std::aligned_alloc(size_t{2} << 20, kReadBytes);
    madvise(bytes, kReadBytes, MADV_HUGEPAGE);
    std::fill_n(static_cast<uint64_t*>(bytes), kReadBytes / 8, uint64_t{1});
    memory.push_back(static_cast<uint64_t*>(bytes));
  }
  double seconds = 1e9;
  for (const auto read : {sum_of<1>, sum_of<4>, sum_of<8>}) {
    const auto work = [&](int t) { sink = read(memory[static_cast<size_t>(t)], kReadBytes / 8); };
    seconds = std::min(seconds, best_seconds(threads, work));
  }
  for (uint64_t* bytes : memory) std::free(bytes);
  return static_cast<double>(kReadBytes) * threads / seconds / 1e9;
}

#ifdef __x86_64__
constexpr int64_t kLoops = 20'000'000;
constexpr int kPerLoop = 12;  // independent sums: more than latency times instructions per cycle

#define REPRISE_LOOP(instruction)                                                       \
  int64_t left = kLoops;                                                                \
  asm volatile("1:\n" instruction "0\n" instruction "1\n" instruction "2\n" instruction \
               "3\n" instruction "4\n" instruction "5\n" instruction "6\n" instruction  \
               "7\n" instruction "8\n" instruction "9\n" instruction "10\n" instruction \
               "11\n"                                                                   \
               "dec %0\njnz 1b\n"                                                       \
               : "+r"(left)                                                             \
               :                                                                        \
               : "cc",                                                                  \
                 "xmm0",                                                                \
                 "xmm1",                                                                \
                 "xmm2",                                                                \
                 "xmm3",                                                                \
                 "xmm4",                                                                \
                 "xmm5",                                                                \
                 "xmm6",                                                                \
                 "xmm7",                                                                \
                 "xmm8",                                                                \
                 "xmm9",                                                                \
                 "xmm10",                                                               \
                 "xmm11")

void multiply_int8(int) { REPRISE_LOOP("vpdpbusd %%zmm30, %%zmm31, %%zmm"); }
void multiply_bf16(int) { REPRISE_LOOP("vdpbf16ps %%zmm30, %%zmm31, %%zmm"); }
#undef REPRISE_LOOP

// Four independent tiles of sums; a tile product is 16 x 16 sums of 64 bytes of each operand.
constexpr int64_t kTileLoops = 2'000'000;
constexpr double kTileBytes = 4.0 * 16 * 16 * 64;

struct TileShapes {
  uint8_t palette = 1;
  uint8_t other[15] = {};
  uint16_t bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
  uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
};

#define REPRISE_TILE_LOOP(instruction)                                                \
  const TileShapes shapes;                                                            \
  int64_t left = kTileLoops;                                                          \
  asm volatile(                                                                       \
      "ldtilecfg %1\n"                                                                \
      "1:\n" instruction " %%tmm6, %%tmm4, %%tmm0\n" instruction                      \
      " %%tmm7, %%tmm4, %%tmm1\n" instruction " %%tmm6, %%tmm5, %%tmm2\n" instruction \
      " %%tmm7, %%tmm5, %%tmm3\n"                                                     \
      "dec %0\njnz 1b\n"                                                              \
      "tilerelease\n"                                                                 \
      : "+r"(left)                                                                    \
      : "m"(shapes)                                                                   \
      : "cc")

void multiply_tiles_bf16(int) { REPRISE_TILE_LOOP("tdpbf16ps"); }
void multiply_tiles_int8(int) { REPRISE_TILE_LOOP("tdpbssd"); }
#undef REPRISE_TILE_LOOP

// Operations per second, counting a multiplication and an addition; 0 without the instruction.
double peak(int threads, bool has_instruction, void (*work)(int), double operations) {
  if (!has_instruction) return 0;
  return kLoops * kPerLoop * operations * threads / best_seconds(threads, work);
}
#endif

}  // namespace

int main(int argc, char** argv) {
  const int threads =
      argc > 1 ? std::atoi(argv[1]) : static_cast<int>(std::thread::hardware_concurrency());
  if (threads < 1 || threads > 1024) {
    std::fprintf(stderr, "cpu_roof: expected a number of threads from 1 to 1024\n");
    return 2;
  }
  if (argc > 2 && (argc > 3 || std::string_view(argv[2]) != "read")) {
    std::fprintf(stderr, "cpu_roof: '%s' is unknown, expected read, or nothing\n", argv[2]);
    return 2;
  }
  if (argc > 2) {
    std::printf("{\"threads\": %d, \"read_gb_s\": %.2f}\n", threads, read_gb_s(threads));
    return 0;
  }
  double int8 = 0;
  double bf16 = 0;
#ifdef __x86_64__
  int8 = peak(threads, __builtin_cpu_supports("avx512vnni"), multiply_int8, 128);
  bf16 = peak(threads, __builtin_cpu_supports("avx512bf16"), multiply_bf16, 64);
  // Elements have two bytes or one; a product is a multiplication and an addition.
  const double bytes = kTileLoops * kTileBytes * threads;
  const reprise::device::CpuFeatures features = reprise::device::detect_cpu_features();
  if (features.amx_bf16) {
    bf16 = std::max(bf16, bytes / 2 * 2 / best_seconds(threads, multiply_tiles_bf16));
  }
  if (features.amx_int8) {
    int8 = std::max(int8, bytes * 2 / best_seconds(threads, multiply_tiles_int8));
  }
#endif
  std::printf(
      "{\"threads\": %d, \"read_gb_s\": %.2f, \"int8_tops\": %.3f, \"bf16_tflops\": %.3f}\n",
      threads,
      read_gb_s(threads),
      int8 / 1e12,
      bf16 / 1e12);
  return 0;
}
