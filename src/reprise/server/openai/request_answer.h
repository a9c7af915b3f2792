#pragma once

#include "reprise/api/async_engine.h"
#include "reprise/server/http/api_error.h"
#include "reprise/server/http/http_exchange.h"

namespace reprise::server {

/// The answer to one request: receives the engine's output for its choices and writes it to the
/// client. Each answer ends with one finish() or fail(). I/O thread only.
class RequestAnswer {
 public:
  virtual ~RequestAnswer() = default;

  /// Adds the output of one step to the choice `index`; a finished delta is the last one of its
  /// choice.
  virtual void take(int index, const engine::OutputDelta& delta) = 0;
  /// Writes something that clients ignore, if the answer is a stream that has been silent since
  /// `since`. A stream that had not begun then begins, so a later error has no status of its own.
  virtual void keep_alive(api::TimePoint since) { static_cast<void>(since); }
  /// Called when all choices are finished.
  virtual void finish() = 0;
  /// finish() in two halves, for an answer whose JSON takes long to write. is_large() and whole()
  /// may run on another thread, while no other function is called. \pre of whole(): the answer is
  /// not a stream
  [[nodiscard]] virtual bool is_large() const = 0;
  [[nodiscard]] virtual HttpResponse whole() = 0;
  virtual void respond(HttpResponse response) = 0;
  /// Answers with the error's status if nothing was sent before; otherwise ends the stream with the
  /// error.
  virtual void fail(const ApiError& error) = 0;
};

}  // namespace reprise::server
