import { cleanup, render, screen } from '@testing-library/react';
import { Component, type ComponentType, type ReactNode, Suspense } from 'react';
import { afterEach, expect, test, vi } from 'vitest';
import { told } from '../api/client';
import { fetchLater, later } from './later';

class Guard extends Component<{ children: ReactNode }, { error: unknown }> {
  override state = { error: null };
  static getDerivedStateFromError(error: unknown) {
    return { error };
  }
  override render() {
    return this.state.error === null ? this.props.children : told(this.state.error).title;
  }
}

function show(Page: ComponentType) {
  render(
    <Guard>
      <Suspense fallback="on its way">
        <Page />
      </Suspense>
    </Guard>,
  );
}

afterEach(() => {
  cleanup();
  vi.restoreAllMocks();
  vi.useRealTimers();
});

test('a page is there when it has been fetched', async () => {
  show(later(async () => () => 'the page'));
  screen.getByText('on its way');
  await screen.findByText('the page');
});

test('a page that cannot be fetched says so', async () => {
  vi.spyOn(console, 'error').mockImplementation(() => {});
  show(later(() => Promise.reject(new TypeError('Failed to fetch'))));
  await screen.findByText('this page could not be fetched');
});

test('the rest is fetched after the first page, and one that fails keeps back no other', async () => {
  vi.useFakeTimers();
  const [lost, found] = [vi.fn(() => Promise.reject(new Error('lost'))), vi.fn(async () => show)];
  later(lost);
  later(found as never);
  const end = fetchLater();
  await vi.advanceTimersByTimeAsync(1_000);
  expect(found).not.toHaveBeenCalled();
  await vi.advanceTimersByTimeAsync(5_000);
  expect(lost).toHaveBeenCalledTimes(1);
  expect(found).toHaveBeenCalledTimes(1);
  end();
  fetchLater()();
  await vi.advanceTimersByTimeAsync(5_000);
  expect(found).toHaveBeenCalledTimes(1);
});
