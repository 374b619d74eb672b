import { PageHead } from '../parts/basic';
import { StallTable } from '../parts/stalls';
import { useTitle } from '../router';

export function StallsPage() {
  useTitle('Stalls');
  return (
    <>
      <PageHead title="Stalls" />
      <p className="page-lead">
        When hosts waited and nothing was done for 100 ms or longer, and why. Each node keeps its
        own; they are read together here.
      </p>
      <div className="panel">
        <StallTable />
      </div>
    </>
  );
}
