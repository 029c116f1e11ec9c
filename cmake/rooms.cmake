# A room is a folder of src/. Its sources are globbed: adding a file needs no line here.
#   *_test.cc    belong to the room's unit test
#   *_avx2.cc, *_avx2_vnni.cc, *_avx512_core.cc, *_avx512.cc, *_avx512_bf16.cc   get their ISA flags
#                by name; everything else is portable x86-64
function(octavo_options target)
  target_include_directories(${target} PRIVATE ${PROJECT_SOURCE_DIR}/src)
  # False positives: of g++ 12 on string assignment at -O3, of clang 14 on wide vector arguments.
  target_compile_options(${target} PRIVATE -Wall -Wextra -Werror -fno-math-errno
                         $<IF:$<CXX_COMPILER_ID:GNU>,-Wno-restrict,-Wno-psabi>)
  if(OCTAVO_SANITIZE)
    target_compile_options(${target} PRIVATE -fsanitize=${OCTAVO_SANITIZE}
                           -fno-sanitize-recover=all -fno-omit-frame-pointer)
    target_link_options(${target} PRIVATE -fsanitize=${OCTAVO_SANITIZE})
    if(OCTAVO_SANITIZE STREQUAL "thread")
      # g++ 12: TSan knows no atomic_thread_fence (Asio has some), and sees uninitialised variants.
      target_compile_options(${target} PRIVATE -Wno-tsan -Wno-maybe-uninitialized)
    endif()
  endif()
  # The fuzz targets feed text and files; the rooms of numbers below them need no instrumentation.
  if(OCTAVO_FUZZ AND NOT target MATCHES "_(device|kernels|model|engine|observability)$")
    target_compile_options(${target} PRIVATE -fsanitize=fuzzer-no-link,address,undefined
                           -fno-sanitize-recover=all)
    target_link_options(${target} PRIVATE -fsanitize=address,undefined)
  endif()
endfunction()

function(octavo_room name)
  cmake_parse_arguments(ARG "" "" "LINK" ${ARGN})
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/${name}/*.cc)
  list(FILTER sources EXCLUDE REGEX "_test\\.cc$|/main\\.cc$")
  if(sources)
    add_library(octavo_${name} STATIC ${sources})
    target_link_libraries(octavo_${name} PUBLIC ${ARG_LINK})
    octavo_options(octavo_${name})
    set(avx2 -mavx2 -mfma -mf16c)
    set(avx512 ${avx2} -mavx512f -mavx512bw -mavx512dq -mavx512vl -mprefer-vector-width=512)
    foreach(source ${sources})
      set(isa)
      if(source MATCHES "_avx2\\.cc$")
        set(isa ${avx2})
      elseif(source MATCHES "_avx2_vnni\\.cc$")
        set(isa ${avx2} -mavxvnni)
      elseif(source MATCHES "_avx512_core\\.cc$")
        set(isa ${avx512})
      elseif(source MATCHES "_avx512\\.cc$")
        set(isa ${avx512} -mavx512vnni)
      elseif(source MATCHES "_avx512_bf16\\.cc$")
        set(isa ${avx512} -mavx512vnni -mavx512bf16)
      elseif(source MATCHES "_generic\\.cc$")
        set(isa -Wno-psabi)  # notes that GCC 4.6 passed wide vectors otherwise
      endif()
      set_property(SOURCE ${source} APPEND PROPERTY COMPILE_OPTIONS ${isa})
    endforeach()
  else()
    add_library(octavo_${name} INTERFACE)
    target_link_libraries(octavo_${name} INTERFACE ${ARG_LINK})
  endif()
  if(OCTAVO_SANITIZE AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    # The kernels' variants inline everything: with all checks in line and debug information for each
    # inlined variable g++ takes minutes for one of them. Checks by call find the same bad accesses.
    foreach(source ${sources})
      if(source MATCHES "_(generic|avx2|avx2_vnni|avx512_core|avx512|avx512_bf16)\\.cc$")
        set_property(SOURCE ${source} APPEND PROPERTY COMPILE_OPTIONS -g1 -fno-var-tracking
          -fno-sanitize=undefined --param=asan-instrumentation-with-call-threshold=0
          --param=asan-stack=0 -O1)
      endif()
    endforeach()
  endif()
  if(name STREQUAL "kernels" AND sources)
    # g++ would contract mul+add into an FMA in one file and not in another: promise P1.
    target_compile_options(octavo_kernels PRIVATE -ffp-contract=off -O3)
  endif()
endfunction()
