# Micro-benchmarks: programs of their own, not run by ctest.
add_executable(bench_kernels bench/bench_kernels.cc)
target_link_libraries(bench_kernels PRIVATE octavo_kernels)
octavo_options(bench_kernels)
target_include_directories(bench_kernels PRIVATE ${PROJECT_SOURCE_DIR})

add_executable(bench_step bench/bench_step.cc)
target_link_libraries(bench_step PRIVATE octavo_engine)
octavo_options(bench_step)

add_executable(bench_client bench/bench_client.cc)
target_link_libraries(bench_client PRIVATE octavo_bench)
octavo_options(bench_client)

# The bar for our products; not a dependency of anything else.
find_package(dnnl CONFIG QUIET)
if(TARGET DNNL::dnnl)
  add_executable(bench_onednn bench/bench_onednn.cc)
  target_link_libraries(bench_onednn PRIVATE octavo_kernels DNNL::dnnl gomp)
  octavo_options(bench_onednn)
endif()
