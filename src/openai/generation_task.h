#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "frontend/frontend.h"
#include "openai/api.h"

namespace octavo::openai {

/// Runs the prompts of one HTTP request and answers it: one response at the end, or a stream of
/// events. Lives as long as a stream or the HTTP pool refers to it; a client that goes aborts all.
class GenerationTask : public std::enable_shared_from_this<GenerationTask> {
 public:
  GenerationTask(const ApiContext& api, std::shared_ptr<Exchange> exchange, bool stream);
  virtual ~GenerationTask() = default;

  /// Queues all prompts, or none: then nothing has been sent and the error is the answer.
  Status start(std::vector<frontend::GenerateRequest> requests);

 protected:
  // Called one at a time, on any HTTP thread.
  /// Takes what became known of a sample of prompt `prompt`; when streaming, appends its events.
  virtual void on_delta(size_t prompt, frontend::Delta&& delta, std::string& events) = 0;
  /// Streaming: events between the last choice and [DONE].
  virtual void on_end(std::string& events) = 0;
  /// Not streaming: the whole answer.
  virtual HttpResponse response() = 0;

  const ApiContext& api_;

 private:
  void schedule();
  void drain();
  void fail(const frontend::Delta& delta, std::string events);
  void cancel();

  const std::shared_ptr<Exchange> exchange_;
  const bool stream_;
  std::vector<std::shared_ptr<frontend::OutputStream>> streams_;  // fixed once started
  std::atomic<bool> scheduled_{false};
  std::atomic<bool> cancelled_{false};
  std::mutex mutex_;  // serialises drain
  bool done_ = false;
};

}  // namespace octavo::openai
