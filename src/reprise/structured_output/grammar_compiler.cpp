#include "reprise/structured_output/grammar_compiler.h"

#include <fmt/format.h>

#include <condition_variable>
#include <deque>
#include <exception>
#include <future>
#include <list>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "reprise/base/error.h"

namespace reprise::structured_output {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::chrono::milliseconds kPatienceAtTheEnd{1000};

}  // namespace

struct GrammarCompiler::Shared {
  struct Job {
    OutputSpec spec;
    Clock::time_point deadline;
    std::vector<OnCompiled> waiting;  // the thread that answers moves them out
  };
  struct Cached {
    OutputSpec spec;
    std::shared_ptr<const CompiledSpec> compiled;
    size_t bytes = 0;  // as counted in cache_bytes; a compiled spec grows while it is used
  };

  std::function<std::unique_ptr<GrammarBackend>()> create;
  GrammarCompilerOptions options;

  mutable std::mutex mutex;  // guards everything below; never held while compiling or calling back
  std::condition_variable work;
  std::condition_variable idle;
  std::deque<std::shared_ptr<Job>> queue;
  std::list<std::shared_ptr<Job>> running;
  std::list<Cached> cache;  // last used first
  size_t cache_bytes = 0;
  bool stop = false;

  std::once_flag created;
  std::unique_ptr<GrammarBackend> backend;

  static void answer(std::vector<OnCompiled> waiting, const CompileResult& result) {
    for (const OnCompiled& on_compiled : waiting) on_compiled(result);
  }

  [[nodiscard]] std::string too_slow() const {
    return fmt::format("the grammar is too complex: compiling it took more than {} ms",
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

  /// Counts the current size of an entry, and drops the least recently used entries when the cache
  /// is too large.
  void count(Cached& entry) {
    cache_bytes -= entry.bytes;
    entry.bytes = entry.compiled->memory_bytes() + entry.spec.text.size();
    for (const std::string& choice : entry.spec.choices) entry.bytes += choice.size();
    cache_bytes += entry.bytes;
    while (cache_bytes > options.cache_bytes && !cache.empty()) {
      cache_bytes -= cache.back().bytes;
      cache.pop_back();
    }
  }

  void keep(const OutputSpec& spec, std::shared_ptr<const CompiledSpec> compiled) {
    cache.push_front({spec, std::move(compiled)});
    count(cache.front());
  }

  CompileResult compile(const OutputSpec& spec) {
    try {
      std::call_once(created, [this] { backend = create(); });
      CompileResult result{.compiled = backend->compile(spec)};
      if (result.compiled->memory_bytes() > options.max_compiled_bytes) {
        return {.error = fmt::format(
                    "the grammar is too complex: compiled it has {} MiB, at most {} are allowed",
                    result.compiled->memory_bytes() >> 20U,
                    options.max_compiled_bytes >> 20U)};
      }
      return result;
    } catch (const InvalidArgument& error) {
      return {.error = error.what()};
    } catch (const std::bad_alloc&) {
      return {.error = "the grammar is too complex: memory for it could not be had"};
    } catch (const std::exception& error) {
      return {.error = fmt::format("the grammar could not be compiled: {}", error.what())};
    }
  }

  void work_off() {
    std::unique_lock lock(mutex);
    for (;;) {
      work.wait(lock, [this] { return stop || !queue.empty(); });
      if (stop) return;
      const std::shared_ptr<Job> job = queue.front();
      queue.pop_front();
      running.push_back(job);
      lock.unlock();
      const CompileResult result = compile(job->spec);
      lock.lock();
      running.remove(job);
      idle.notify_all();
      if (result.compiled && find(job->spec) == nullptr) keep(job->spec, result.compiled);
      std::vector<OnCompiled> waiting = std::move(job->waiting);
      lock.unlock();
      answer(std::move(waiting), result);
      lock.lock();
    }
  }

  /// Answers the specs that have run or waited for too long.
  void watch() {
    std::unique_lock lock(mutex);
    while (!stop) {
      Clock::time_point next = Clock::now() + options.time_limit;
      std::vector<OnCompiled> late;
      const auto look = [&](Job& job) {
        if (job.deadline > Clock::now()) {
          if (!job.waiting.empty()) next = std::min(next, job.deadline);
          return;
        }
        for (OnCompiled& on_compiled : job.waiting) late.push_back(std::move(on_compiled));
        job.waiting.clear();
      };
      for (const auto& job : running) look(*job);
      for (const auto& job : queue) look(*job);
      std::erase_if(queue, [](const auto& job) { return job->waiting.empty(); });
      if (late.empty()) {
        work.wait_until(lock, next);
        continue;
      }
      lock.unlock();
      answer(std::move(late), {.error = too_slow()});
      lock.lock();
    }
  }
};

GrammarCompiler::GrammarCompiler(std::function<std::unique_ptr<GrammarBackend>()> create,
                                 const GrammarCompilerOptions& options)
    : shared_(std::make_shared<Shared>()) {
  shared_->create = std::move(create);
  shared_->options = options;
  for (int i = 0; i < options.num_threads; ++i) {
    std::thread([shared = shared_] { shared->work_off(); }).detach();
  }
  std::thread([shared = shared_] { shared->watch(); }).detach();
}

GrammarCompiler::~GrammarCompiler() {
  std::vector<OnCompiled> waiting;
  {
    std::unique_lock lock(shared_->mutex);
    shared_->stop = true;
    shared_->work.notify_all();
    for (const auto& job : shared_->queue) {
      for (OnCompiled& on_compiled : job->waiting) waiting.push_back(std::move(on_compiled));
    }
    shared_->queue.clear();
    shared_->idle.wait_for(lock, kPatienceAtTheEnd, [this] { return shared_->running.empty(); });
    for (const auto& job : shared_->running) {
      for (OnCompiled& on_compiled : job->waiting) waiting.push_back(std::move(on_compiled));
      job->waiting.clear();
    }
  }
  Shared::answer(std::move(waiting), {.error = "the server is shutting down"});
}

void GrammarCompiler::submit(const OutputSpec& spec, OnCompiled on_compiled) {
  CompileResult result;
  {
    const std::lock_guard lock(shared_->mutex);
    result.compiled = shared_->find(spec);
    if (!result.compiled) {
      const auto same = [&spec](const auto& job) {
        return job->spec == spec && !job->waiting.empty();
      };
      for (auto* jobs : {&shared_->queue}) {
        for (const auto& job : *jobs) {
          if (!same(job)) continue;
          job->waiting.push_back(std::move(on_compiled));
          return;
        }
      }
      for (const auto& job : shared_->running) {
        if (!same(job)) continue;
        job->waiting.push_back(std::move(on_compiled));
        return;
      }
      if (shared_->queue.size() < shared_->options.max_waiting) {
        auto job = std::make_shared<Shared::Job>();
        job->spec = spec;
        job->deadline = Clock::now() + shared_->options.time_limit;
        job->waiting.push_back(std::move(on_compiled));
        shared_->queue.push_back(std::move(job));
        shared_->work.notify_all();
        return;
      }
      result.error = "too many grammars wait to be compiled; try again later";
    }
  }
  on_compiled(result);
}

std::shared_ptr<const CompiledSpec> GrammarCompiler::compile(const OutputSpec& spec) {
  std::promise<CompileResult> promise;
  submit(spec, [&promise](const CompileResult& result) { promise.set_value(result); });
  CompileResult result = promise.get_future().get();
  if (!result.compiled) throw InvalidArgument(result.error);
  return std::move(result.compiled);
}

}  // namespace reprise::structured_output
