#include "kernels/attention/attention.h"

#include <algorithm>
#include <atomic>
#include <limits>
#include <optional>
#include <vector>

#include "base/check.h"
#include "kernels/attention/attention_params.h"
#include "kernels/attention/kv_writer.h"
#include "kernels/variants.h"

namespace octavo::kernels {
namespace {

constexpr auto kAttention = std::to_array<Variant<const AttentionKernels*>>({
    {Isa::kAvx512, avx512_bf16::kAttention, Needs::kFastBf16Dot},
    {Isa::kAvx512Core, avx512_core::kAttention},
    {Isa::kAvx2, avx2::kAttention},
    {Isa::kGeneric, generic::kAttention},
});

/// Rows (queries times heads of a group) a tile aims at: its scores take 96 KiB, inside L2, and K
/// and V are widened once a tile. 192 rows gave prefill 0 to 2 % more and fewer tasks to share out.
constexpr int64_t kTileRows = 96;
/// Tasks per thread from which sharing out whole tiles balances well enough.
constexpr int64_t kTasksPerThread = 4;
/// Results of chunks from which joining them is shared out: waking the pool costs as much as some.
constexpr int64_t kPartsWorthTasks = 64;

/// Tasks that a thread takes at once where there are many: neighbours lie side by side in memory,
/// and eight pieces a thread still balance.
int64_t piece_size(int64_t num_tasks, int num_threads) {
  return std::max<int64_t>(num_tasks / (int64_t{8} * num_threads), 1);
}

/// Runs tasks [0, count) on all threads in pieces of `grain`. Each takes the next task before it
/// runs the one that it has, so that it can ask for the next keys meanwhile:
/// run(task, next task or null, thread).
template <class At, class Run>
void run_in_chains(device::ThreadPool& pool, int64_t count, int64_t grain, At at, Run run) {
  std::atomic<int64_t> first_free = 0;
  pool.parallel_for(pool.num_threads(), 1, [&](int64_t, int64_t, int thread) {
    decltype(at(0)) held;
    while (true) {
      const int64_t begin = first_free.fetch_add(grain, std::memory_order_relaxed);
      if (begin >= count) break;
      for (int64_t index = begin; index < std::min(begin + grain, count); ++index) {
        const auto taken = at(index);
        if (!taken) continue;
        if (held) run(*held, &*taken, thread);
        held = taken;
      }
    }
    if (held) run(*held, nullptr, thread);
  });
}

int64_t queries_per_tile(int64_t group) {
  const int64_t queries = std::max<int64_t>(kTileRows / group, 1);
  return queries >= 16 ? queries / 16 * 16 : queries;
}

int64_t max_tile_rows(int64_t num_heads) { return std::max(kTileRows, num_heads); }

size_t state_bytes(int64_t rows, int64_t head_dim) {
  return static_cast<size_t>(rows) * static_cast<size_t>(2 + attention_row_floats(head_dim)) *
             sizeof(float) +
         size_t{64} * 3;
}

size_t scratch_bytes(int64_t rows, int64_t head_dim) {
  const auto r = static_cast<size_t>(rows);
  return round_up_64(r * static_cast<size_t>(head_dim) * 4) + r * kAttentionChunkKeys * (4 + 2);
}

/// The pages of a chunk, widened. Counted for every cache type: who sizes the workspace need not
/// know the type, and memory that is not touched costs nothing.
size_t widened_bytes(int64_t head_dim) {
  return kAttentionChunkPages * kv_page_bytes(device::DType::kBF16, 1, head_dim);
}

/// Cuts a state of `rows` rows out of memory of state_bytes.
AttentionState place_state(std::byte* at, int64_t rows) {
  const size_t scalars = round_up_64(static_cast<size_t>(rows) * sizeof(float));
  return {reinterpret_cast<float*>(at), reinterpret_cast<float*>(at + scalars),
          reinterpret_cast<float*>(at + 2 * scalars)};
}

void reset_state(const AttentionState& state, int64_t rows) {
  std::fill_n(state.m, rows, -std::numeric_limits<float>::infinity());
  std::fill_n(state.l, rows, 0.0f);
}

/// Memory of one thread.
struct ThreadMemory {
  AttentionScratch scratch;
  AttentionState state, chunk;
};

ThreadMemory place_memory(std::byte* at, int64_t rows, int64_t head_dim) {
  ThreadMemory memory;
  const auto r = static_cast<size_t>(rows);
  memory.scratch.q = at;
  at += round_up_64(r * static_cast<size_t>(head_dim) * 4);
  memory.scratch.scores = reinterpret_cast<float*>(at);
  at += r * kAttentionChunkKeys * 4;
  memory.scratch.weights = at;
  at += r * kAttentionChunkKeys * 2;
  memory.state = place_state(at, rows);
  at += round_up_64(state_bytes(rows, head_dim));
  memory.chunk = place_state(at, rows);
  at += round_up_64(state_bytes(rows, head_dim));
  memory.scratch.pages = at;
  memory.scratch.panel = reinterpret_cast<float*>(at + widened_bytes(head_dim));
  return memory;
}

size_t thread_bytes(int64_t rows, int64_t head_dim) {
  return round_up_64(scratch_bytes(rows, head_dim)) + 2 * round_up_64(state_bytes(rows, head_dim)) +
         widened_bytes(head_dim) + kAttentionPanelFloats * sizeof(float);
}

/// One task's input: a tile of queries and the chunks of keys it sees.
struct Job {
  AttentionTile tile;
  int64_t chunk_begin, chunk_end;
};

/// Tiles of a step, counted off without a list: sequences' tiles one after another, heads
/// innermost.
class Plan {
 public:
  Plan(const AttentionBatch& batch, const AttentionParams& params, const KvLayer& layer)
      : batch_(batch),
        window_(params.sliding_window),
        bidirectional_(params.mask == MaskKind::kBidirectional),
        one_query_each_(one_query_each(batch)),
        num_kv_heads_(layer.num_kv_heads),
        tile_queries_(queries_per_tile(params.num_heads / layer.num_kv_heads)) {
    for (int64_t s = 0; s < batch.num_seqs; ++s) {
      check_sequence(s, layer.num_pages);
      num_query_tiles_ += tiles_of(s);
      max_chunks_ = std::max(max_chunks_, (batch.seq_lens[s] - 1) / kAttentionChunk + 1);
    }
  }

  const AttentionBatch& batch() const { return batch_; }
  int64_t num_jobs() const { return num_query_tiles_ * num_kv_heads_; }
  int64_t max_chunks() const { return max_chunks_; }
  int64_t num_kv_heads() const { return num_kv_heads_; }

  Job job(int64_t index) const {
    if (one_query_each_) return job(index / num_kv_heads_, index % num_kv_heads_);
    for (int64_t s = 0;; ++s) {
      const int64_t jobs = tiles_of(s) * num_kv_heads_;
      if (index < jobs) return job(s, index);
      index -= jobs;
    }
  }

 private:
  int64_t queries_of(int64_t s) const {
    return batch_.query_start_loc[s + 1] - batch_.query_start_loc[s];
  }
  int64_t tiles_of(int64_t s) const { return (queries_of(s) + tile_queries_ - 1) / tile_queries_; }

  void check_sequence(int64_t s, int64_t num_pages) const {
    const int64_t len = batch_.seq_lens[s];
    CHECK_GE(queries_of(s), 0);
    CHECK_GE(len, queries_of(s));
    const int64_t blocks = (len + batch_.block_size - 1) / batch_.block_size;
    CHECK_LE(blocks, batch_.max_blocks_per_seq);
    const int64_t num_blocks = num_pages / (batch_.block_size / kPageTokens);
    for (int64_t b = 0; b < blocks; ++b) {
      const int32_t block = batch_.block_tables[s * batch_.max_blocks_per_seq + b];
      CHECK(block < num_blocks);
      // Blocks that slid out of the window may have been given back.
      CHECK(block >= 0 || (window_ > 0 && (b + 1) * batch_.block_size <= first_key(s)));
    }
  }

  /// First key that the sequence's first query sees.
  int64_t first_key(int64_t s) const {
    return std::max<int64_t>(batch_.seq_lens[s] - queries_of(s) - window_ + 1, 0);
  }

  /// Last key that the tile's last query sees.
  int64_t last_key(const AttentionTile& tile) const {
    const int64_t last_query = tile.position + tile.num_queries - 1;
    if (!bidirectional_) return last_query;
    const int64_t last = tile.num_keys - 1;
    return window_ > 0 ? std::min(last_query + window_ - 1, last) : last;
  }

  Job job(int64_t s, int64_t local) const {
    const int64_t first_query = local / num_kv_heads_ * tile_queries_;
    Job job;
    job.tile.block_table = batch_.block_tables + s * batch_.max_blocks_per_seq;
    job.tile.pages_per_block = batch_.block_size / kPageTokens;
    job.tile.kv_head = local % num_kv_heads_;
    job.tile.token = batch_.query_start_loc[s] + first_query;
    job.tile.position = batch_.seq_lens[s] - queries_of(s) + first_query;
    job.tile.num_queries = std::min(queries_of(s) - first_query, tile_queries_);
    const int64_t first = window_ > 0 ? std::max<int64_t>(job.tile.position - window_ + 1, 0) : 0;
    job.chunk_begin = first / kAttentionChunk;
    job.tile.num_keys = batch_.seq_lens[s];
    job.chunk_end = last_key(job.tile) / kAttentionChunk + 1;
    return job;
  }

  const AttentionBatch& batch_;
  int64_t window_;
  bool bidirectional_;
  bool one_query_each_;
  int64_t num_kv_heads_;
  int64_t tile_queries_;
  int64_t num_query_tiles_ = 0;
  int64_t max_chunks_ = 0;
};

/// Makes a tile ready for its chunks. `writer`: null, or it has the tile's only token.
void start_tile(const AttentionKernels& kernels, const AttentionCall& call,
                const AttentionTile& tile, const KvWriter* writer, const ThreadMemory& mine) {
  if (writer != nullptr) writer->fetch(tile.token, tile.kv_head);
  kernels.load_queries(call, tile, mine.scratch);
  if (writer != nullptr) writer->write(tile.token, tile.kv_head);
}

/// A whole tile, its chunks joined as they come. `next`: what this thread reads afterwards.
void run_job(const AttentionKernels& kernels, const AttentionCall& call, const Job& job,
             const AttentionChunk& next, const KvWriter* writer, const ThreadMemory& mine) {
  start_tile(kernels, call, job.tile, writer, mine);
  for (int64_t chunk = job.chunk_begin; chunk < job.chunk_end; ++chunk) {
    const bool first = chunk == job.chunk_begin;
    const AttentionChunk after =
        chunk + 1 < job.chunk_end ? AttentionChunk{&job.tile, chunk + 1} : next;
    kernels.run_chunk(call, {&job.tile, chunk}, after, mine.scratch,
                      first ? mine.state : mine.chunk);
    if (!first) {
      kernels.merge(job.tile.num_queries * call.group, call.head_dim, mine.state, mine.chunk);
    }
  }
  kernels.finish(call, job.tile, mine.state);
}

/// Whole tiles as tasks. `writer`: null, or it has the tiles' only
/// tokens, which are still to be written.
void run_tiles(const KernelContext& ctx, const AttentionKernels& kernels, const AttentionCall& call,
               const Plan& plan, const KvWriter* writer, std::byte* memory, int64_t tile_rows) {
  const size_t bytes = thread_bytes(tile_rows, call.head_dim);
  const int64_t num_jobs = plan.num_jobs();
  // A prompt's from the end: its last tiles see the most keys, and a long task is best not the
  // last. Tiles of many queries take long and are shared out one by one.
  const bool decodes = one_query_each(plan.batch());
  const auto at = [&](int64_t task) {
    return std::optional(plan.job(decodes ? task : num_jobs - 1 - task));
  };
  const int64_t grain = decodes ? piece_size(num_jobs, ctx.pool.num_threads()) : 1;
  run_in_chains(ctx.pool, num_jobs, grain, at, [&](const Job& job, const Job* after, int thread) {
    const ThreadMemory mine =
        place_memory(memory + static_cast<size_t>(thread) * bytes, tile_rows, call.head_dim);
    AttentionChunk next;
    if (after != nullptr) next = {&after->tile, after->chunk_begin};
    run_job(kernels, call, job, next, writer, mine);
  });
}

/// A chunk of one tile as a task.
struct ChunkTask {
  Job job;
  int64_t index, chunk;  // of the job, in its sequence
};

/// Few tiles with many chunks (a decode step of few sequences): each chunk is a task of its own,
/// the results are joined in the same order afterwards.
void run_split(const KernelContext& ctx, const AttentionKernels& kernels, const AttentionCall& call,
               const Plan& plan, const KvWriter* writer, std::byte* memory, int64_t tile_rows) {
  const int64_t max_chunks = plan.max_chunks();
  const size_t bytes = thread_bytes(tile_rows, call.head_dim);
  const size_t part_bytes = round_up_64(state_bytes(tile_rows, call.head_dim));
  std::byte* const parts =
      ctx.workspace.take(part_bytes * static_cast<size_t>(plan.num_jobs() * max_chunks));
  const auto part = [&](int64_t job, int64_t chunk) {
    return place_state(parts + static_cast<size_t>(job * max_chunks + chunk) * part_bytes,
                       tile_rows);
  };
  const int64_t num_tasks = plan.num_jobs() * max_chunks;
  // A sequence's chunks one after another, heads innermost, as they lie in memory.
  const int64_t num_heads = plan.num_kv_heads();
  const auto at = [&](int64_t task) -> std::optional<ChunkTask> {
    const int64_t chunk = task / num_heads % max_chunks;
    const int64_t index = task / (num_heads * max_chunks) * num_heads + task % num_heads;
    const Job job = plan.job(index);
    if (chunk < job.chunk_begin || chunk >= job.chunk_end) return std::nullopt;
    return ChunkTask{job, index, chunk};
  };
  // All heads of a chunk to one thread, where that still balances: long runs are read faster.
  const int64_t grain = std::min(piece_size(num_tasks, ctx.pool.num_threads()), num_heads);
  run_in_chains(ctx.pool, num_tasks, grain, at,
                [&](const ChunkTask& task, const ChunkTask* after, int thread) {
                  const ThreadMemory mine = place_memory(
                      memory + static_cast<size_t>(thread) * bytes, tile_rows, call.head_dim);
                  // The token itself is in the last chunk that it sees.
                  const bool last = task.chunk == task.job.chunk_end - 1;
                  start_tile(kernels, call, task.job.tile, last ? writer : nullptr, mine);
                  AttentionChunk next;
                  if (after != nullptr) next = {&after->job.tile, after->chunk};
                  kernels.run_chunk(call, {&task.job.tile, task.chunk}, next, mine.scratch,
                                    part(task.index, task.chunk));
                });
  // Joining 125 chunks takes 2 % of reading them on one thread: with many threads it would be seen.
  const int64_t jobs_per_task = num_tasks < kPartsWorthTasks ? plan.num_jobs() : 1;
  ctx.pool.parallel_for(
      plan.num_jobs(), jobs_per_task, [&](int64_t begin, int64_t end, int thread) {
        const ThreadMemory mine =
            place_memory(memory + static_cast<size_t>(thread) * bytes, tile_rows, call.head_dim);
        for (int64_t index = begin; index < end; ++index) {
          const Job job = plan.job(index);
          const int64_t rows = job.tile.num_queries * call.group;
          reset_state(mine.state, rows);
          for (int64_t chunk = job.chunk_begin; chunk < job.chunk_end; ++chunk) {
            kernels.merge(rows, call.head_dim, mine.state, part(index, chunk));
          }
          kernels.finish(call, job.tile, mine.state);
        }
      });
}

}  // namespace

const AttentionKernels& attention_kernels_of(device::DType dtype) {
  return pick(kAttention)[static_cast<size_t>(dtype)];
}

void attention(const KernelContext& ctx, float* out, int64_t out_stride, const float* q,
               int64_t q_stride, const KvLayer& layer, const AttentionBatch& batch,
               const AttentionParams& params, const KvTokens* unwritten) {
  CHECK_EQ(layer.head_dim % 2, 0);
  CHECK_EQ(batch.block_size % kPageTokens, 0);
  CHECK_EQ(params.num_heads % layer.num_kv_heads, 0);
  AttentionCall call;
  call.kv = layer.data;
  call.page_bytes = kv_page_bytes(layer.dtype, layer.num_kv_heads, layer.head_dim);
  call.head_bytes = kv_page_bytes(layer.dtype, 1, layer.head_dim);
  call.v_offset = call.head_bytes / 2;
  call.head_dim = layer.head_dim;
  call.group = params.num_heads / layer.num_kv_heads;
  call.scale = params.scale * layer.k_scale;
  call.v_scale = layer.v_scale;
  call.softcap = params.softcap;
  call.sliding_window = params.sliding_window;
  call.bidirectional = params.mask == MaskKind::kBidirectional;
  call.q = q;
  call.q_stride = q_stride;
  call.out = out;
  call.out_stride = out_stride;

  const AttentionKernels& kernels = attention_kernels_of(layer.dtype);
  const Plan plan(batch, params, layer);
  std::optional<KvWriter> writer;
  if (unwritten != nullptr) {
    CHECK(one_query_each(batch));
    writer.emplace(layer, *unwritten);
    for (int64_t i = 0; i < batch.num_seqs; ++i) {
      CHECK(unwritten->slot_mapping[i] >= 0 && writer->page(i) < layer.num_pages);
    }
  }
  const int num_threads = ctx.pool.num_threads();
  // A task of the split form has one query: its parts stay small.
  const bool split = one_query_each(batch) && plan.max_chunks() > 1 && num_threads > 1 &&
                     plan.num_jobs() < kTasksPerThread * num_threads;
  const int64_t tile_rows = split ? call.group : max_tile_rows(params.num_heads);
  const size_t mark = ctx.workspace.mark();
  std::byte* const memory =
      ctx.workspace.take(thread_bytes(tile_rows, call.head_dim) * static_cast<size_t>(num_threads));
  (split ? run_split : run_tiles)(ctx, kernels, call, plan, writer ? &*writer : nullptr, memory,
                                  tile_rows);
  ctx.workspace.reset(mark);
}

device::Reading KvReading::reading() const {
  if (batch.num_seqs != 1 || !one_query_each(batch)) return {};
  const int64_t num_keys = batch.seq_lens[0];
  const bool slides = params.sliding_window > 0 && num_keys > params.sliding_window;
  if (num_keys > kAttentionChunk || slides) return {};
  device::Reading reading;
  reading.part_bytes = kv_page_bytes(layer.dtype, 1, layer.head_dim);
  reading.parts_of_piece = (num_keys + kPageTokens - 1) / kPageTokens;
  reading.num_parts = reading.parts_of_piece * layer.num_kv_heads;
  reading.context = this;
  // A tile for each head.
  reading.part_at = [](const void* context, int64_t part) -> const std::byte* {
    const auto& kv = *static_cast<const KvReading*>(context);
    const int64_t pages = (kv.batch.seq_lens[0] + kPageTokens - 1) / kPageTokens;
    const int64_t pages_per_block = kv.batch.block_size / kPageTokens;
    const int64_t block = kv.batch.block_tables[part % pages / pages_per_block];
    const int64_t page = block * pages_per_block + part % pages % pages_per_block;
    const int64_t head = part / pages;
    const size_t head_bytes = kv_page_bytes(kv.layer.dtype, 1, kv.layer.head_dim);
    return kv.layer.data + static_cast<size_t>(page * kv.layer.num_kv_heads + head) * head_bytes;
  };
  return reading;
}

bool one_query_each(const AttentionBatch& batch) {
  for (int64_t s = 0; s < batch.num_seqs; ++s) {
    if (batch.query_start_loc[s + 1] - batch.query_start_loc[s] != 1) return false;
  }
  return batch.num_seqs > 0;
}

size_t attention_workspace_bytes(int64_t num_tokens, int64_t num_heads, int64_t head_dim,
                                 int64_t max_model_len, int num_threads) {
  const int64_t rows = max_tile_rows(num_heads);
  const int64_t chunks = (std::max<int64_t>(max_model_len, 1) - 1) / kAttentionChunk + 1;
  // In the split form a sequence has num_kv_heads jobs of num_heads / num_kv_heads rows.
  const int64_t jobs = std::min<int64_t>(kTasksPerThread * num_threads, num_tokens * num_heads);
  const int64_t group = num_heads;  // at most
  return thread_bytes(rows, head_dim) * static_cast<size_t>(num_threads) +
         round_up_64(state_bytes(group, head_dim)) * static_cast<size_t>(jobs * chunks);
}

}  // namespace octavo::kernels
