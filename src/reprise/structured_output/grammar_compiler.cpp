#include "reprise/structured_output/grammar_compiler.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <deque>
#include <exception>
#include <future>
#include <list>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "reprise/base/error.h"
#include "reprise/base/thread_priority.h"
#include "reprise/structured_output/client_shares.h"
#include "reprise/structured_output/thread_clock.h"

namespace reprise::structured_output {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::chrono::milliseconds kPatienceAtTheEnd{1000};
/// The time between two checks of the processor time of a running spec.
constexpr std::chrono::milliseconds kShortestLook{10};
/// With an even lower priority, ordinary specs would not be compiled in time on busy processors.
constexpr int kMoreNiceness = 5;

/// The kinds of jobs that a thread accepts.
enum class Lane : uint8_t { all, quick };

}  // namespace

struct GrammarCompiler::Shared {
  struct Job {
    OutputSpec spec;
    std::string client;
    Clock::time_point deadline;       // end of the wait, and later of the compilation; in real time
    ThreadClock used;                 // while the job runs: the processor time since it began
    std::vector<OnCompiled> waiting;  // the thread that answers moves them out
    bool is_slow = false;             // the first attempt was given up
    bool is_running = false;
    std::atomic<bool> is_cancelled = false;
  };
  using Jobs = std::deque<std::shared_ptr<Job>>;
  struct Cached {
    OutputSpec spec;
    std::shared_ptr<const CompiledSpec> compiled;
    size_t bytes = 0;  // the size that cache_bytes contains; a compiled spec grows while it is used
  };

  std::function<std::unique_ptr<GrammarBackend>()> create;
  GrammarCompilerOptions options;

  mutable std::mutex mutex;  // guards everything below; not held while compiling or calling back
  std::condition_variable work;
  std::condition_variable idle;
  Jobs quick;
  Jobs slow;
  std::list<std::shared_ptr<Job>> running;
  std::list<Cached> cache;  // last used first
  size_t cache_bytes = 0;
  ClientShares shares;
  bool stop = false;

  std::once_flag created;
  std::unique_ptr<GrammarBackend> backend;

  static void answer(std::vector<OnCompiled>&& waiting, const CompileResult& result) {
    const std::vector<OnCompiled> all = std::move(waiting);
    for (const OnCompiled& on_compiled : all) on_compiled(result);
  }

  [[nodiscard]] std::string too_slow() const {
    return fmt::format(
        "the grammar is too complex: compiling it took more than {} ms of a processor",
        options.time_limit.count());
  }

  std::shared_ptr<const CompiledSpec> find(const OutputSpec& spec) {
    for (auto entry = cache.begin(); entry != cache.end(); ++entry) {
      if (entry->spec != spec) continue;
      cache.splice(cache.begin(), cache, entry);
      const std::shared_ptr<const CompiledSpec> compiled = entry->compiled;
      count(*entry);
      return compiled;
    }
    return nullptr;
  }

  /// Updates the size of an entry, and drops the least recently used entries if the cache is too
  /// large.
  void count(Cached& entry) {
    cache_bytes -= entry.bytes;
    entry.bytes = entry.compiled->memory_bytes() + entry.spec.text.size();
    for (const std::string& choice : entry.spec.choices) entry.bytes += choice.size();
    cache_bytes += entry.bytes;
    shrink(options.cache_bytes);
  }

  void shrink(size_t max_bytes) {
    while (cache_bytes > max_bytes && !cache.empty()) {
      cache_bytes -= cache.back().bytes;
      cache.pop_back();
    }
  }

  void keep(const OutputSpec& spec, std::shared_ptr<const CompiledSpec> compiled) {
    cache.push_front({spec, std::move(compiled)});
    count(cache.front());
  }

  [[nodiscard]] int64_t max_steps_of(const Job& job) const {
    return job.is_slow ? options.max_steps : options.quick_steps;
  }

  /// nullopt: the first attempt was abandoned.
  std::optional<CompileResult> compile(const Job& job, WorkLimit& limit) {
    try {
      std::call_once(created, [this] { backend = create(); });
      CompileResult result{.compiled = backend->compile(job.spec, limit)};
      if (result.compiled->memory_bytes() > options.max_compiled_bytes) {
        return CompileResult{
            .error = fmt::format("the grammar is too complex: compiled it has {} MiB, at most {} "
                                 "are allowed",
                                 result.compiled->memory_bytes() >> 20U,
                                 options.max_compiled_bytes >> 20U)};
      }
      return result;
    } catch (const WorkLimitReached&) {
      if (!job.is_slow && !job.is_cancelled) return std::nullopt;
      // Except at the end of the server, the thread that cancels a spec has already answered it.
      if (job.is_cancelled) return at_the_end();
      return CompileResult{.error = too_many_steps()};
    } catch (const InvalidArgument& error) {
      return CompileResult{.error = error.what()};
    } catch (const std::bad_alloc&) {
      return CompileResult{.error =
                               "the grammar is too complex: there is not enough memory for it"};
    } catch (const std::exception& error) {
      return CompileResult{.error =
                               fmt::format("the grammar could not be compiled: {}", error.what())};
    }
  }

  [[nodiscard]] std::string too_many_steps() const {
    return fmt::format("the grammar is too complex: compiling it takes more than {} steps",
                       options.max_steps);
  }

  /// The queue from which a thread takes its next job; null: there is none. If there is only one
  /// thread, it serves quick jobs first.
  Jobs* next_queue(Lane lane) {
    const bool takes_slow = lane == Lane::all && !slow.empty();
    if (takes_slow && (options.num_threads > 1 || quick.empty())) return &slow;
    return quick.empty() ? nullptr : &quick;
  }

  std::shared_ptr<Job> take_next(Jobs& queue) {
    const auto next =
        std::min_element(queue.begin(), queue.end(), [this](const auto& first, const auto& second) {
          return shares.rank(first->client) < shares.rank(second->client);
        });
    std::shared_ptr<Job> job = *next;
    queue.erase(next);
    return job;
  }

  void work_off(Lane lane) {
    std::unique_lock lock(mutex);
    for (;;) {
      work.wait(lock, [&] { return stop || next_queue(lane) != nullptr; });
      if (stop) return;
      Jobs& queue = *next_queue(lane);
      const std::shared_ptr<Job> job = take_next(queue);
      const int64_t max_steps = max_steps_of(*job);
      const std::string client = job->client;
      shares.begin(client, max_steps);
      job->is_running = true;
      job->deadline = Clock::now() + options.wait_limit;
      job->used = ThreadClock::of_this_thread();
      running.push_back(job);
      work.notify_all();  // the watching thread has a new deadline
      lock.unlock();
      WorkLimit limit{.num_steps_left = max_steps, .is_cancelled = &job->is_cancelled};
      const std::optional<CompileResult> result = compile(*job, limit);
      lock.lock();
      shares.correct(client, -std::clamp(limit.num_steps_left, int64_t{0}, max_steps));
      running.remove(job);
      job->is_running = false;
      idle.notify_all();
      if (!result) {
        try_again(job);
        continue;
      }
      if (result->compiled && find(job->spec) == nullptr) keep(job->spec, result->compiled);
      std::vector<OnCompiled> waiting = std::move(job->waiting);
      lock.unlock();
      answer(std::move(waiting), *result);
      lock.lock();
    }
  }

  void try_again(const std::shared_ptr<Job>& job) {
    job->is_slow = true;
    job->deadline = Clock::now() + options.wait_limit;
    slow.push_back(job);
    work.notify_all();
  }

  /// Answers the specs that have run or waited too long.
  void watch() {
    std::unique_lock lock(mutex);
    while (!stop) {
      Clock::time_point next = Clock::now() + options.wait_limit;
      const CompileResult slow_result{.error = too_slow()};
      const CompileResult starved_result = starved();
      const CompileResult busy_result = busy();
      std::vector<std::pair<OnCompiled, const CompileResult*>> late;
      const auto look = [&](Job& job) {
        if (job.waiting.empty()) return;
        const Clock::duration left = time_left(job);
        if (left.count() > 0 && job.deadline > Clock::now()) {
          next = std::min(
              {next, job.deadline, Clock::now() + std::max<Clock::duration>(left, kShortestLook)});
          return;
        }
        job.is_cancelled = true;
        const CompileResult* result = job.is_running ? &starved_result : &busy_result;
        if (left.count() <= 0) result = &slow_result;
        for (OnCompiled& on_compiled : job.waiting)
          late.emplace_back(std::move(on_compiled), result);
        job.waiting.clear();
      };
      for (const auto& job : running) look(*job);
      for (Jobs* const jobs : {&quick, &slow}) {
        for (const auto& job : *jobs) look(*job);
        std::erase_if(*jobs, [](const auto& job) { return job->waiting.empty(); });
      }
      if (late.empty()) {
        work.wait_until(lock, next);
        continue;
      }
      lock.unlock();
      for (const auto& [on_compiled, result] : late) on_compiled(*result);
      lock.lock();
    }
  }

  /// The processor time that a spec may still use. At least this much real time passes before the
  /// limit.
  [[nodiscard]] Clock::duration time_left(const Job& job) const {
    return job.is_running ? options.time_limit - job.used.elapsed() : options.wait_limit;
  }

  [[nodiscard]] CompileResult starved() const {
    return {.error = fmt::format("the server is busy: a grammar was not compiled within {} ms; try "
                                 "again later",
                                 options.wait_limit.count()),
            .is_busy = true};
  }

  [[nodiscard]] static CompileResult at_the_end() {
    return {.error = "the server is shutting down", .is_busy = true};
  }

  [[nodiscard]] CompileResult busy() const {
    return {.error = fmt::format("the server is busy: {} grammars wait to be compiled; try again "
                                 "later",
                                 quick.size() + slow.size()),
            .is_busy = true};
  }

  /// Empty if another spec of this client may wait, otherwise the refusal. A running first attempt
  /// counts as waiting, because its spec may have to wait again.
  [[nodiscard]] std::optional<CompileResult> why_full(const std::string& client) const {
    size_t num_waiting = 0;
    size_t num_of_client = 0;
    const auto add = [&](const auto& job) {
      ++num_waiting;
      if (job->client == client) ++num_of_client;
    };
    std::for_each(quick.begin(), quick.end(), add);
    std::for_each(slow.begin(), slow.end(), add);
    for (const auto& job : running) {
      if (!job->is_slow) add(job);
    }
    if (num_waiting >= options.max_waiting) return busy();
    if (num_of_client < options.max_waiting_per_client) return std::nullopt;
    return CompileResult{
        .error = fmt::format("{} grammars from this client wait to be compiled; try again later",
                             num_of_client),
        .is_busy = true};
  }

  /// The unanswered job that has this spec, or null.
  std::shared_ptr<Job> find_job(const OutputSpec& spec) {
    const auto is_same = [&spec](const auto& job) {
      return job->spec == spec && !job->waiting.empty();
    };
    for (const auto& job : running) {
      if (is_same(job)) return job;
    }
    for (const Jobs* const jobs : {&quick, &slow}) {
      const auto found = std::find_if(jobs->begin(), jobs->end(), is_same);
      if (found != jobs->end()) return *found;
    }
    return nullptr;
  }
};

GrammarCompiler::GrammarCompiler(std::function<std::unique_ptr<GrammarBackend>()> create,
                                 const GrammarCompilerOptions& options)
    : shared_(std::make_shared<Shared>()) {
  shared_->create = std::move(create);
  shared_->options = options;
  for (int i = 0; i < options.num_threads; ++i) {
    const Lane lane = i == 0 ? Lane::all : Lane::quick;
    std::thread([shared = shared_, lane] {
      make_this_thread_patient(kMoreNiceness);
      shared->work_off(lane);
    }).detach();
  }
  std::thread([shared = shared_] { shared->watch(); }).detach();
}

GrammarCompiler::~GrammarCompiler() {
  std::vector<OnCompiled> waiting;
  {
    std::unique_lock lock(shared_->mutex);
    shared_->stop = true;
    shared_->work.notify_all();
    for (const auto& job : shared_->running) job->is_cancelled = true;
    shared_->idle.wait_for(lock, kPatienceAtTheEnd, [this] { return shared_->running.empty(); });
    const auto take = [&waiting](const auto& jobs) {
      for (const auto& job : jobs) {
        for (OnCompiled& on_compiled : job->waiting) waiting.push_back(std::move(on_compiled));
        job->waiting.clear();
      }
    };
    take(shared_->quick);
    take(shared_->slow);
    take(shared_->running);
  }
  Shared::answer(std::move(waiting), Shared::at_the_end());
}

void GrammarCompiler::submit(const OutputSpec& spec,
                             OnCompiled on_compiled,
                             const std::string& client) {
  CompileResult result;
  {
    const std::lock_guard lock(shared_->mutex);
    result.compiled = shared_->find(spec);
    if (!result.compiled) {
      if (const auto job = shared_->find_job(spec); job != nullptr) {
        const ClientShares& shares = shared_->shares;
        if (shares.rank(client) < shares.rank(job->client)) job->client = client;
        job->waiting.push_back(std::move(on_compiled));
        return;
      }
      if (std::optional<CompileResult> refusal = shared_->why_full(client)) {
        result = std::move(*refusal);
      } else {
        auto job = std::make_shared<Shared::Job>();
        job->spec = spec;
        job->client = client;
        job->deadline = Clock::now() + shared_->options.wait_limit;
        job->waiting.push_back(std::move(on_compiled));
        shared_->quick.push_back(std::move(job));
        shared_->work.notify_all();
        return;
      }
    }
  }
  on_compiled(result);
}

void GrammarCompiler::shrink_cache(size_t max_bytes) {
  const std::lock_guard lock(shared_->mutex);
  shared_->shrink(max_bytes);
}

bool GrammarCompiler::is_idle() const {
  const std::lock_guard lock(shared_->mutex);
  return shared_->running.empty() && shared_->quick.empty() && shared_->slow.empty();
}

std::shared_ptr<const CompiledSpec> GrammarCompiler::compile(const OutputSpec& spec) {
  std::promise<CompileResult> promise;
  submit(spec, [&promise](const CompileResult& result) { promise.set_value(result); });
  CompileResult result = promise.get_future().get();
  if (!result.compiled) throw InvalidArgument(result.error);
  return std::move(result.compiled);
}

}  // namespace reprise::structured_output
